/**
 * Search over a log, or all logs of a run: the server finds the candidates, and the page applies the whole pattern to
 * them. A browser's own search sees only the rows in the document.
 */

import { ask, objects, path } from "./api.js";
import { h, say } from "./dom.js";
import { NOTE, STDERR, TRACE } from "./lines.js";
import { Endless, Matcher, pattern } from "./matching.js";
import { painted } from "./paint.js";
import { called, count, several } from "./words.js";

const LISTED = 200; // hits that are listed
const SHOWN = 1000; // ms that a step waits for its hit to be on the screen

let kept = null;

/** The search that continues over the pages of *run*, or a new one. */
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
    this.place = { of: null, at: 0, on: false }; // of the user: the line that is marked, or the first on the screen
    this.presses = 0; // hits to go forward, or back if below 0: steps that were pressed while earlier ones are under way
  }

  /** @param {string} run  @param {{site: string, log: string}|null} stream the log on the page */
  begin(run, stream, streams) {
    this.run = run;
    this.stream = stream;
    this.streams = streams; // of a merged page
    this.level = ""; // of the rows on the page: rows of other levels are no hits
    this.span = [0, Infinity]; // the bytes of the log on the page whose hits are known
    if (this.own) say(this.own, stream ? "this log" : "these logs");
    if (this.shown) this.tell("");
  }

  /** The page shows rows of *level* alone: searches again, and keeps the page's place. */
  leveled(level) {
    this.level = level;
    if (this.matcher && !this.matcher.ended) this.told(this.search(false));
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
    this.presses = 0;
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
    const asked = `${this.input.value} ${this.regex.checked} ${this.ignore.checked} ${this.scope.value} ${this.level}`;
    if (this.asked === asked && this.hits.length && this.matcher && !this.matcher.ended) return this.step(1);
    this.asked = asked;
    this.told(this.search());
  }

  /** Shows why *search* failed, if it does. */
  async told(search) {
    try {
      await search;
    } catch (error) {
      if (error.name !== "AbortError") say(this.said, error instanceof Endless ? "The pattern took more than 2 s and was ended." : error.message);
    }
  }

  /** *goes*: whether to go to the first hit. */
  async search(goes = true) {
    this.over?.abort();
    const over = (this.over = new AbortController());
    this.presses = 0;
    this.searching = true;
    this.goes = goes;
    try {
      await this.searched();
    } finally {
      if (over === this.over) this.searching = false;
    }
    await this.walk();
  }

  async searched() {
    this.matcher?.end();
    this.hits = [];
    this.cut = 0; // lines without a match of which only the beginning was searched
    this.shown = null;
    this.list.replaceChildren();
    const text = this.input.value;
    if (!text) return say(this.said, "");
    const wanted = pattern(text, { regex: this.regex.checked, ignore: this.ignore.checked });
    this.matcher = new Matcher(wanted);
    this.dispatchEvent(new CustomEvent("found"));
    const run = this.scope.value === "run";
    const streams = run ? undefined : this.stream ? [this.stream] : this.streams;
    this.question = { run: this.run, streams, ignore: this.ignore.checked, ...(this.level && { level: this.level }), ...(this.regex.checked ? { regex: wanted.source } : { literals: [text] }) };
    if (this.goes) this.dispatchEvent(new CustomEvent("asked"));
    if (run || !this.stream) {
      this.span = [0, Infinity];
      await this.look({});
    } else {
      const from = this.place.head ?? this.place.at; // a traceback's lines have its level only if reading begins at its first line
      this.span = [from, from];
      await this.seek(1);
      if (this.span[1] === Infinity) await (this.hits.length ? this.reach(-1) : this.seek(-1));
    }
    if (this.shown || !this.goes) return;
    if (this.hits.some((hit) => this.here(hit))) this.presses += 1;
    else if (this.hits.length) this.list.hidden = false;
  }

  /** Searches the log on the page for the hits next to those that are known, up to the server's limit. */
  async reach(direction) {
    const [from, to] = this.span;
    if (direction > 0) {
      const edge = await this.look(to ? { from: to } : {});
      this.span[1] = edge ? edge.end : Infinity;
    } else {
      const edge = from > 0 ? await this.look({ ...(from < Infinity && { to: from }), last: true }) : null;
      this.span[0] = edge ? edge.offset : 0;
    }
    this.tell("");
  }

  /** Searches on until there is one more hit, or the log is over: none of the server's candidates may be a hit. */
  async seek(direction) {
    const known = this.hits.length;
    do await this.reach(direction);
    while (this.hits.length === known && (direction > 0 ? this.span[1] < Infinity : this.span[0] > 0));
  }

  /** Takes the hits in *part* of the logs. Returns the outermost one, if there are more. */
  async look(part) {
    let named = this.question.streams ?? [];
    let edge = null;
    let done = null;
    const looked = new Map();
    say(this.said, "Looking \u2026");
    for await (const said of objects("/api/search", { ...this.question, ...part }, { signal: this.over.signal })) {
      if (said.streams) [named, this.exact] = [said.streams, said.exact];
      if (said.hits) {
        const [, offset, end] = said.hits.at(part.last ? 0 : -1);
        edge = { offset, end };
        await this.take(said.hits, named);
      }
      if (said.progress) looked.set(said.progress[0], said.progress);
      if (said.done) done = said;
      else this.tell(` \u2026 ${this.progress(looked)}`);
    }
    this.capped = Boolean(done?.capped);
    this.cut += done?.cut ?? 0;
    this.tell(done ? "" : ", until the connection was lost");
    return this.capped ? edge : null;
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
    const { signal } = this.over;
    const found = this.exact ? null : new Set((await this.matcher.find(hits.map((hit, at) => [at, hit[3]]))).map(([at]) => at));
    signal.throwIfAborted(); // a newer search has begun
    const kept = hits.filter((hit, at) => this.exact || found.has(at)).map(([k, offset, end, text]) => ({ ...named[k], k, offset, end, text }));
    if (!kept.length) return;
    this.hits.push(...kept);
    this.hits.sort((a, b) => a.k - b.k || a.offset - b.offset);
    this.list.replaceChildren(...this.hits.slice(0, LISTED).map((hit) => this.listed(hit)));
    this.dispatchEvent(new CustomEvent("found"));
    const { at } = this.place;
    const first = this.shown || !this.goes ? null : this.mine().find((hit) => hit.offset >= at);
    if (first) this.show(first);
    this.told(this.walk());
  }

  listed(hit) {
    return h(
      "li",
      {},
      h("a", { href: `${path(this.run, hit.site, hit.log)}#bytes=${hit.offset}-${hit.end}` },
        h("span", { class: "where" }, `${hit.site}/${called(hit)}`), h("span", { class: "what" }, ...painted(hit.text, null, 300))),
    );
  }

  /** Says how many hits there are, or which one is shown, if all before it are known; "+": there may be more hits. */
  tell(what) {
    const rest = this.cut ? `${what}; ${several(this.cut, "line is", "lines are")} longer than 65,536 characters: only that part was searched` : what;
    const mine = this.mine();
    const more = this.capped || this.span[0] > 0 || this.span[1] < Infinity ? "+" : "";
    const all = this.hits.length;
    const number = mine.indexOf(this.shown) + 1;
    if (!number) say(this.said, `${count(all)}${more} ${all === 1 && !more ? "line" : "lines"}${rest}`);
    else if (this.span[0] > 0) say(this.said, `One of ${count(all)}${more} hits${rest}`);
    else if (all > mine.length) say(this.said, `Hit ${count(number)} of ${count(mine.length)} in this log, ${count(all)}${more} in the run${rest}`);
    else say(this.said, `Hit ${count(number)} of ${count(all)}${more}${rest}`);
  }

  /** The hits in the log on the page. */
  mine() {
    return this.hits.filter((hit) => this.here(hit));
  }

  here(hit) {
    return this.stream && hit.site === this.stream.site && hit.log === this.stream.log;
  }

  /** Shows the next hit (1) or the one before (-1), from the place of the page. */
  step(direction) {
    if (!this.matcher || this.matcher.ended) return null;
    this.presses += direction;
    return this.told(this.walk());
  }

  /** Goes on by as many hits as were pressed. During a search, steps to hits that are not found yet wait. */
  async walk() {
    if (this.walking) return;
    this.walking = true;
    try {
      let hit = null;
      while (this.presses) {
        const direction = Math.sign(this.presses);
        const found = this.searching ? this.near(direction) : await this.beside(direction);
        if (!found && this.searching) break;
        this.presses = found ? this.presses - direction : 0;
        if (!found) break;
        hit = found;
        this.place = { ...this.place, at: hit.offset, on: true };
        if (this.presses && this.here(hit)) continue;
        await this.shows(hit);
        hit = null;
      }
      if (hit) await this.shows(hit);
    } catch (error) {
      this.presses = 0;
      throw error;
    } finally {
      this.walking = false;
    }
  }

  /** The hit behind the place (1) or before it (-1), otherwise the first or the last one of all. */
  async beside(direction) {
    let hit = this.next(direction);
    while (hit === undefined) {
      const { at } = this.place;
      if (at < this.span[0] || at > this.span[1]) this.anew(at);
      await this.reach(direction);
      hit = this.next(direction);
    }
    if (!hit && (direction > 0 ? this.span[0] > 0 : this.span[1] < Infinity)) {
      this.anew(direction > 0 ? 0 : Infinity);
      await this.seek(direction);
    }
    if (hit) return hit;
    const all = this.hits;
    const { of, at: from } = this.place;
    const its = this.stream ? [] : all.filter((one) => of && one.site === of.site && one.log === of.log); // on a merged page
    const near = direction > 0 ? its.find((one) => one.offset >= from) : its.findLast((one) => one.offset < from);
    if (near) return near;
    const mine = this.stream ? this.mine() : its;
    const at = mine.length ? all.indexOf(direction > 0 ? mine.at(-1) : mine[0]) : direction > 0 ? -1 : 0;
    return all.at((at + direction) % (all.length || 1)); // of the next log, or of this one if there is no other
  }

  /** The hit behind the place (1) or before it (-1); null if there is none; undefined while it is unknown. */
  next(direction) {
    const { at } = this.place;
    const [from, to] = this.span;
    if (at < from || at > to) return undefined;
    return this.near(direction) ?? ((direction > 0 ? to < Infinity : from > 0) ? undefined : null);
  }

  /** As `next`, among the known hits. */
  near(direction) {
    const { at, on } = this.place;
    const mine = this.mine();
    return direction > 0 ? mine.find((one) => one.offset > at || (!on && one.offset === at)) : mine.findLast((one) => one.offset < at);
  }

  /** Drops the hits, because those around *at* are wanted. */
  anew(at) {
    this.hits = [];
    this.span = [at, at];
  }

  show(hit) {
    this.shown = hit;
    this.place = { ...this.place, at: hit.offset, on: true };
    this.tell("");
    this.dispatchEvent(new CustomEvent("go", { detail: hit }));
  }

  /** Shows *hit*, and resolves once it is on the screen: quick steps would otherwise show none of their hits. */
  shows(hit) {
    return new Promise((done) => {
      this.drawn = done;
      setTimeout(done, SHOWN);
      this.show(hit);
    });
  }

  /** Called when the page shows *place*. */
  reached(place) {
    if (this.walking && !this.drawn) return; // the walk continues from a hit that is not shown
    if (place.on && place.at !== this.place.at && this.hits.length) {
      this.shown = this.mine().find((hit) => hit.offset === place.at) ?? this.shown;
      this.tell("");
    }
    this.place = place;
    this.drawn?.();
    this.drawn = null;
  }
}

const FEW = 4; // rows in the first request for an error: most errors are near, and each row may be far
const MOST = 1000;

/**
 * The next row of a log with an error, from *offset* on, that does not continue a traceback; null if there is none.
 * *begin*: of the traceback that contains *offset*, if one does: its first row tells which rows continue it.
 */
export async function nextError(stream, begin, offset, signal) {
  for (let at = begin, most = FEW; ; ) {
    const answer = await ask("/api/window", { stream, at, rows: most, level: "error" }, { signal });
    const rows = answer.rows.filter((row) => !(row[4] & NOTE));
    const found = rows.find((row) => row[1] >= offset && !(row[4] & TRACE));
    if (found) return found;
    if (answer.to <= at || answer.to >= answer.committed) return null;
    if (answer.rows.length >= most && most < MOST) most = Math.min(MOST, most * 8);
    else {
      const stream = rows.at(-1)?.[4] & STDERR;
      const head = rows.findLast((row) => !(row[4] & TRACE) && (row[4] & STDERR) === stream)?.[1]; // its traceback may continue
      at = head > at ? head : answer.to;
    }
  }
}

customElements.define("search-bar", SearchBar);
