/**
 * Two to four logs side by side. The log in which the visitor moves leads: the others show the time of its first line on
 * the screen. Keys act on it. One stream brings the new lines of all, because the server gives a login few of them.
 */

import { parsed } from "./address.js";
import { path, together } from "./api.js";
import { h, say } from "./dom.js";
import { goTo } from "./goto.js";
import { help, listen } from "./keys.js";
import { key } from "./lines.js";
import { LogPage, levels } from "./log.js";
import { chip, within } from "./range.js";
import { searchOf } from "./searchbar.js";
import { set, setting } from "./settings.js";
import { Tail } from "./tail.js";
import { called, moment, zone } from "./words.js";

const MOVED = 500; // ms after a move until its time is in the address: browsers allow few changes of the history
const ALL = ["t"]; // keys that act on all logs

export class SidePage extends HTMLElement {
  /** @param {{run: string, streams: {site: string, log: string}[], hash: string, time?: number}} wanted */
  begin(wanted) {
    Object.assign(this, wanted);
    return this;
  }

  connectedCallback() {
    const { run, streams } = this;
    this.gone = new AbortController();
    const { signal } = this.gone;
    this.live = new Shared();
    this.search = searchOf(run);
    this.search.begin(run, null, streams);
    this.pages = streams.map((stream) => new LogPage().begin({ run, stream: { run, ...stream }, hash: "", time: this.time, range: this.range, side: this }));
    [this.leader] = this.pages;
    this.level = levels(setting("level"), () => this.filter());
    const button = (text, title, act, properties) => h("button", { type: "button", title, on: { click: act }, ...properties }, text);
    this.lock = button("Same time", "Show the same time in all logs, or let each stay where it is", () => this.turn(), { "aria-pressed": "true" });
    this.append(
      h("h1", { class: "unseen" }, `${streams.length} logs of ${run} side by side`),
      h("div", { class: "tools", role: "toolbar", "aria-label": "These logs" },
        button("Search", "Search (/)", () => this.search.open()), this.level, button("Go to", "Go to a line, an offset, a share or a time (:)", () => goTo(this.leader)), this.lock, this.range && chip(this.range),
        h("a", { class: "button", href: together(run, "log", streams, "merged=time") }, "Merged"), button("?", "Keys (?)", help)),
      this.search, h("div", { class: "panes" }, ...this.pages),
    );
    for (const event of ["wheel", "pointerdown", "focusin"]) this.addEventListener(event, ({ target }) => this.leads(target.closest("log-page")), { capture: true, passive: true });
    for (const page of this.pages) page.list.addEventListener("drawn", () => this.moved(page));
    this.leads(this.leader);
    this.search.addEventListener("go", ({ detail }) => this.leader.show(detail), { signal });
    this.search.recall(parsed(this.hash).find, false);
    const table = {};
    for (const name of Object.keys(this.leader.keys())) table[name] = (event) => (ALL.includes(name) ? this.pages : [this.leader]).forEach((page) => page.keys()[name](event));
    this.unkey = listen({ ...table, ArrowLeft: () => this.beside(-1), ArrowRight: () => this.beside(1) });
  }

  disconnectedCallback() {
    this.gone.abort();
    this.unkey();
    clearTimeout(this.keeping);
  }

  /** What stands above the lines of *page*: its name, and a way to close it. */
  heading(page) {
    const { stream } = page;
    const others = this.streams.filter(({ site, log }) => site !== stream.site || log !== stream.log);
    const href = others.length > 1 ? together(this.run, "side", others) : path(this.run, others[0]?.site, others[0]?.log ?? "");
    return [
      h("h2", {}, h("a", { href: path(this.run, stream.site, stream.log) }, h("bdi", {}, `${stream.site}/${called(stream)}`))),
      h("a", { class: "button quiet", href, "aria-label": `Close ${stream.site}/${called(stream)}`, title: "Close this log" }, "\u2715"),
    ];
  }

  leads(page) {
    if (!page) return;
    this.leader = page;
    for (const one of this.pages) one.classList.toggle("leads", one === page);
  }

  /** Goes to the log to the right (1) or to the left (-1). */
  beside(step) {
    this.pages.at((this.pages.indexOf(this.leader) + step) % this.pages.length).list.focus({ preventScroll: true });
  }

  /** Shows *hit* if one of the logs has it; returns whether one has. */
  shows(hit) {
    const page = this.pages.find(({ stream: { site, log } }) => site === hit.site && log === hit.log);
    if (document.activeElement?.closest("log-page")) page?.list.focus({ preventScroll: true });
    this.leads(page);
    page?.show(hit);
    return Boolean(page);
  }

  turn() {
    this.lock.setAttribute("aria-pressed", String(!this.locked));
    this.at = undefined;
    this.moved(this.leader);
  }

  get locked() {
    return this.lock.getAttribute("aria-pressed") === "true";
  }

  filter() {
    for (const page of this.pages) {
      page.level.value = this.level.value;
      page.filter();
    }
  }

  // The same time in all logs.

  /** *page* was drawn: if it leads, the others go to its time, or follow as it does. */
  moved(page) {
    if (page !== this.leader || !page.stay.settled || !this.locked) return;
    const ended = this.at === null && page.source.sealed && !page.list.seen()?.behind; // while it was followed: the others are still
    const first = ended || page.list.follow ? null : firstTime(page);
    const [time, share] = (first !== null && markedAt(page)) || [first, 0];
    if (time === this.at && share === this.share) return;
    Object.assign(this, { at: time, share });
    if (time === undefined) return say(page.told, "The lines here have no times: the other logs stay where they are.");
    for (const other of this.pages) if (other !== page) bring(other, time, share);
    clearTimeout(this.keeping);
    this.keeping = setTimeout(() => {
      history.replaceState(history.state, "", within(this.range, first));
    }, MOVED);
  }
}

/** The time by the receiver's clock of the first line on the screen, or else of a line near it; undefined if no line has a time. */
function firstTime({ list, source }) {
  const view = list.lines.view();
  const first = list.seen()?.before ?? -1;
  const timed = view.slice(0, first + 1).findLast(({ row }) => row[5]) ?? view.find(({ row }) => row[5]);
  return timed && timed.row[5] - source.ahead;
}

/** The time, by the receiver's clock, of the chosen line and its place on the screen, as a share above 0; null if it is not on the screen or has no time. */
function markedAt({ list, source }) {
  const at = list.current === null ? -1 : list.indexOf(list.current);
  const share = at < 0 ? -1 : (list.top(at) - list.scrollTop) / (list.clientHeight - list.height);
  const time = list.lines.view()[at]?.row[5];
  return time && share >= 0 && share <= 1 ? [time - source.ahead, Math.max(share, 1e-6)] : null;
}

/**
 * Shows the lines of *time* in *page*, at *share* of the screen; null: its end. If *share* is above 0, the line is marked, as it
 * is in the log that leads. Of times that come while it goes to another one, the last one counts.
 */
async function bring(page, time, share) {
  page.brought = [time, share];
  if (page.bringing) return;
  page.bringing = true;
  const { list, source } = page;
  while (page.brought !== undefined) {
    const [wanted, high] = page.brought;
    page.brought = undefined;
    say(page.told, ""); // it may be about another time
    if (list.current === page.matched || high) list.current = list.marked = page.anchor = null;
    const place = wanted === null ? null : held(page, wanted, high);
    if (wanted === null) list.follow || page.end();
    else if (place === null) await page.go({ time: wanted }, high);
    else {
      list.turn(false);
      list.reveal(place, high);
      if (place === list.lines.view().length) say(page.told, `No line is of ${moment(wanted + source.ahead)} ${zone(wanted)} or later.`);
    }
    const row = high && list.lines.view().find((item) => item.row[5] - source.ahead >= wanted)?.row;
    if (!row) continue;
    list.current = page.matched = key(row);
    page.mark(0, row[1], Math.max(row[2], row[1] + 1), true);
    list.draw();
  }
  page.bringing = false;
}

/** The index in the list's view of the first line at *time* or later; null if the list lacks lines to show it at *share* of the screen. */
function held({ list, source, stay }, time, share) {
  const view = list.lines.view();
  const own = time + source.ahead;
  const at = view.findIndex(({ row }) => row[5] >= own);
  const earlier = view.findIndex(({ row }) => row[5] < own);
  const [begins, ends] = [source.begins(list.lines), source.ends(list.lines)];
  if (!stay.settled) return null;
  if (at < 0) return earlier >= 0 && ends ? view.length : null;
  const y = list.top(at) - (list.clientHeight - list.height) * share;
  const fits = (begins || y >= 0) && (ends || y + list.clientHeight <= list.whole);
  return fits && (begins || (earlier >= 0 && earlier < at)) ? at : null;
}

/** One stream for the live ends of several lists, which join it and leave it. */
class Shared {
  constructor() {
    this.members = [];
    this.tail = null;
  }

  /** The part of a list, like a Tail of its own. */
  join(stream, listener) {
    const shared = this;
    const one = {
      stream,
      listener,
      get refused() {
        return shared.tail?.refused;
      },
      stop: () => this.leave(one),
    };
    this.members.push(one);
    this.renew();
    return one;
  }

  leave(one) {
    if (this.members.includes(one)) this.renew();
    one.over = true;
    this.members = this.members.filter((other) => other !== one);
  }

  /** Begins the stream anew, for the present members. */
  renew() {
    clearTimeout(this.renewing);
    this.renewing = setTimeout(() => {
      this.tail?.stop();
      const members = [...this.members];
      const give = (k, what, ...said) => members[k].over || members[k].listener[what](...said);
      const each = (list, what) => Map.groupBy(list, ([k]) => k).forEach((of, k) => give(k, what, of.map(([, ...rest]) => [0, ...rest])));
      this.tail = members.length ? new Tail(members.map(({ stream }) => stream), "arrival", {
        streams: (list) => list.forEach((stream, k) => give(k, "streams", [stream])),
        rows: (rows) => each(rows, "rows"),
        bars: (k, rows) => give(k, "bars", 0, rows),
        at: (places) => {
          for (const [k, from] of places) members[k].stream = { ...members[k].stream, from };
          each(places, "at");
        },
        lost: (sentence) => members.forEach((_, k) => give(k, "lost", sentence)),
        ended: (k) => {
          give(k, "done");
          this.members = this.members.filter((one) => one !== members[k]);
        },
        done: () => {},
      }) : null;
    });
  }
}

customElements.define("side-page", SidePage);
