/**
 * Search over a log, or all logs of a run: the server looks for what a pattern must have, the whole pattern is applied
 * here. A browser's own search sees the rows in the document alone.
 */

import { ask, objects, path } from "./api.js";
import { h, say } from "./dom.js";
import { Endless, Matcher, pattern } from "./matching.js";
import { painted } from "./paint.js";
import { count, several } from "./words.js";

const LISTED = 200; // hits that are listed

let kept = null;

/** The search that goes on over the pages of *run*, or a new one. */
export function searchOf(run) {
  const found = kept?.run === run && kept.matcher ? kept : document.createElement("search-bar");
  if (found !== kept) kept?.drop();
  kept = found;
  return found;
}

export class SearchBar extends HTMLElement {
  constructor() {
    super();
    this.hits = []; // {site, log, offset, end, text}
    this.matcher = null;
  }

  /** @param {string} run  @param {{site: string, log: string}|null} stream that is looked at */
  begin(run, stream, streams) {
    this.run = run;
    this.stream = stream;
    this.streams = streams; // of a merged page
    if (this.own) say(this.own, stream ? "this log" : "these logs");
  }

  connectedCallback() {
    if (this.form) return;
    this.input = h("input", { type: "search", name: "pattern", "aria-label": "Search", placeholder: "Search", autocomplete: "off", autocapitalize: "off", spellcheck: "false", enterkeyhint: "search", maxlength: "1000" });
    this.regex = h("input", { type: "checkbox" });
    this.ignore = h("input", { type: "checkbox", checked: true });
    this.own = h("option", { value: "log" }, this.stream ? "this log" : "these logs");
    this.scope = h("select", { "aria-label": "Where to search" }, this.own, h("option", { value: "run" }, "the whole run"));
    this.said = h("output", { class: "found", "aria-live": "polite" });
    this.list = h("ol", { class: "hits", hidden: true, "aria-label": "Lines found" });
    const button = (text, title, act) => h("button", { type: "button", title, "aria-label": title, on: { click: act } }, text);
    this.form = h(
      "form",
      { role: "search", on: { submit: (event) => this.submitted(event) } },
      this.input,
      h("label", { title: "The pattern is a regular expression" }, this.regex, "regex"),
      h("label", { title: "Capital and small letters are alike" }, this.ignore, "ignore case"),
      this.scope,
      button("\u2191", "Previous hit (N)", () => this.step(-1)),
      button("\u2193", "Next hit (n)", () => this.step(1)),
      button("List", "List the hits", () => (this.list.hidden = !this.list.hidden)),
      this.said,
      button("\u2715", "Close the search (Escape)", () => this.close()),
    );
    this.append(this.form, this.list);
    this.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      this.close();
    });
  }

  drop() {
    this.over?.abort();
    this.matcher?.end();
    this.matcher = null;
  }

  open() {
    this.hidden = false;
    this.input.focus();
    this.input.select();
  }

  close() {
    this.drop();
    this.hits = [];
    this.hidden = true;
    say(this.said, "");
    this.list.replaceChildren();
    this.list.hidden = true;
    this.dispatchEvent(new CustomEvent("closed"));
  }

  submitted(event) {
    event.preventDefault();
    const asked = `${this.input.value} ${this.regex.checked} ${this.ignore.checked} ${this.scope.value}`;
    if (this.asked === asked && this.hits.length && this.matcher && !this.matcher.ended) return this.step(1);
    this.asked = asked;
    this.search().catch((error) => {
      if (error.name === "AbortError") return;
      say(this.said, error instanceof Endless ? "The pattern took more than 2 s and was ended." : error.message);
    });
  }

  async search() {
    this.over?.abort();
    this.over = new AbortController();
    this.matcher?.end();
    this.hits = [];
    this.list.replaceChildren();
    const text = this.input.value;
    if (!text) return say(this.said, "");
    const wanted = pattern(text, { regex: this.regex.checked, ignore: this.ignore.checked });
    this.matcher = new Matcher(wanted);
    this.dispatchEvent(new CustomEvent("found"));
    const run = this.scope.value === "run";
    const streams = run ? undefined : this.stream ? [this.stream] : this.streams;
    const question = { run: this.run, streams, ignore: this.ignore.checked, ...(this.regex.checked ? { regex: wanted.source } : { literals: [text] }) };
    let named = streams ?? [];
    let gone = false;
    const looked = new Map();
    say(this.said, "Looking \u2026");
    for await (const said of objects("/api/search", question, { signal: this.over.signal })) {
      if (said.streams) named = said.streams;
      if (said.hits) await this.take(said.hits, named);
      if (said.progress) looked.set(said.progress[0], said.progress);
      if (said.done) {
        gone = true;
        this.tell(said.capped ? ", and there are more" : "");
      } else this.tell(` \u2026 ${this.progress(looked)}`);
    }
    if (!gone) this.tell(", until the connection was lost");
    if (this.hits.some((hit) => this.here(hit))) this.step(1);
    else if (this.hits.length) this.list.hidden = false;
  }

  progress(looked) {
    let [done, of] = [0, 0];
    for (const [, at, all] of looked.values()) {
      done += at;
      of += all;
    }
    return of ? `${Math.floor((100 * done) / of)} %` : "";
  }

  async take(hits, named) {
    const matcher = this.matcher;
    const found = new Set((await matcher.find(hits.map((hit, at) => [at, hit[3]]))).map(([at]) => at));
    const streams = named;
    const kept = hits.filter((hit, at) => found.has(at)).map(([k, offset, end, text]) => ({ ...streams[k], offset, end, text }));
    if (!kept.length) return;
    const first = !this.hits.length;
    this.hits.push(...kept);
    for (const hit of kept.slice(0, Math.max(0, LISTED - this.list.children.length))) this.list.append(this.listed(hit));
    this.dispatchEvent(new CustomEvent("found"));
    if (first && kept.some((hit) => this.here(hit))) this.step(1);
  }

  listed(hit) {
    return h(
      "li",
      {},
      h("a", { href: `${path(this.run, hit.site, hit.log)}#bytes=${hit.offset}-${hit.end}` },
        h("span", { class: "where" }, `${hit.site}/${hit.log}`), h("span", { class: "what" }, ...painted(hit.text, null, 300))),
    );
  }

  tell(rest) {
    say(this.said, `${several(this.hits.length, "line")}${rest}`);
  }

  here(hit) {
    return this.stream && hit.site === this.stream.site && hit.log === this.stream.log;
  }

  /** Shows the next hit (1) or the one before (-1), seen from where the page is. */
  step(direction) {
    if (!this.hits.length) return;
    const from = this.dataset.at === undefined ? -1 : Number(this.dataset.at);
    const mine = this.hits.filter((hit) => this.here(hit)).sort((a, b) => a.offset - b.offset);
    const next = direction > 0 ? mine.find((hit) => hit.offset > from) : mine.findLast((hit) => hit.offset < from);
    let hit = next;
    if (!hit) {
      const others = this.hits.filter((one) => !this.here(one));
      hit = others.length && !mine.length ? others[direction > 0 ? 0 : others.length - 1] : direction > 0 ? mine[0] : mine.at(-1);
    }
    if (!hit) return;
    if (this.here(hit)) say(this.said, `Hit ${count(mine.indexOf(hit) + 1)} of ${count(mine.length)}${this.hits.length > mine.length ? `, ${count(this.hits.length)} in the run` : ""}`);
    this.dispatchEvent(new CustomEvent("go", { detail: hit }));
  }
}

/** The next row of a log with an error, from *offset* on; null where there is none. */
export async function nextError(stream, offset) {
  for (let at = offset; ; ) {
    const answer = await ask("/api/window", { stream, at, rows: 1, level: "error" });
    const found = answer.rows.find((row) => row[1] >= offset && !(row[4] & 2));
    if (found || answer.to <= at || answer.to >= answer.committed) return found ?? null;
    at = answer.to;
  }
}

customElements.define("search-bar", SearchBar);
