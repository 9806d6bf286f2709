/** The logs that are chosen on the page of a run, by SITE/LOG, and the bar that opens them together; the address has them if they are few. */

import { together } from "./api.js";
import { h, say } from "./dom.js";
import { allowed, set, setting } from "./settings.js";
import { archive } from "./taking.js";
import { several } from "./words.js";

const BESIDE = 4; // logs side by side at most
const MERGED = 64; // logs in a merge at most

export class Chosen {
  constructor(run) {
    this.run = run;
    this.streams = new Map();
    this.boxes = new Set();
    this.said = h("span", { role: "status" });
    this.side = h("a", { class: "button main" }, "Side by side");
    this.merged = h("a", { class: "button main" }, "Merged");
    this.download = h("span");
    this.bar = h("div", { class: "chosen", role: "region", "aria-label": "Chosen logs", hidden: true }, this.said, this.side, this.merged, this.download,
      h("button", { type: "button", class: "quiet", "aria-label": "Choose none", on: { click: () => this.turn([...this.streams.values()], false) } }, "\u2715"));
    const named = setting("chosen").split(" ").filter(Boolean).map((id) => ({ site: id.slice(0, id.indexOf("/")), log: id.slice(id.indexOf("/") + 1) }));
    if (named.length) this.turn(named, true);
  }

  /** Drops the logs that none of *sites* has: an address may name others. */
  keep(sites) {
    if (!this.streams.size) return;
    const known = new Set(sites.flatMap(({ streams, site }) => streams.map(({ log }) => idOf({ site, log }))));
    const gone = [...this.streams.values()].filter((stream) => !known.has(idOf(stream)));
    if (gone.length) this.turn(gone, false);
  }

  /** The check box of *streams*, called *name*. */
  box(name, streams) {
    const box = h("input", { type: "checkbox", "aria-label": `Choose ${name}`, on: { change: () => this.turn(streams, box.checked) } });
    box.streams = streams;
    this.boxes.add(box);
    this.mark(box);
    return box;
  }

  turn(streams, on) {
    for (const stream of streams) {
      if (on) this.streams.set(idOf(stream), stream);
      else this.streams.delete(idOf(stream));
    }
    for (const box of this.boxes) if (box.isConnected) this.mark(box);
      else this.boxes.delete(box);
    const every = [...this.streams.values()];
    const named = [...this.streams.keys()].join(" ");
    set("chosen", allowed("chosen", named) ? named : "");
    this.bar.hidden = !every.length;
    say(this.said, `${several(every.length, "log")} chosen${every.length < 2 ? ": choose another one to compare" : every.length > MERGED ? `: ${MERGED} at most are merged` : ""}`);
    this.download.replaceChildren(archive(this.run, { streams: every }));
    this.side.hidden = every.length < 2 || every.length > BESIDE;
    this.merged.hidden = every.length < 2 || every.length > MERGED;
    this.side.href = together(this.run, "side", every);
    this.merged.href = together(this.run, "log", every, "merged=time");
  }

  mark(box) {
    const on = box.streams.filter((stream) => this.streams.has(idOf(stream))).length;
    box.checked = on > 0 && on === box.streams.length;
    box.indeterminate = on > 0 && !box.checked;
  }
}

function idOf({ site, log }) {
  return `${site}/${log}`;
}
