/**
 * Search over a log, or all logs of a run: the server finds the candidates, and the page applies the whole pattern to
 * them. A browser's own search sees only the rows in the document.
 *
 * The log on the page is searched first, from the place of the page on, and then the others. A search that reached the
 * server's limit is continued until all hits are known, or MANY: then a step to an unknown hit continues it.
 */

import { Refused, ask, objects, path, waited } from "./api.js";
import { fragment, parsed, put } from "./address.js";
import { frame, h, say } from "./dom.js";
import { Hits } from "./hits.js";
import { NOTE, STDERR, TRACE } from "./lines.js";
import { Endless, Matcher, pattern } from "./matching.js";
import { painted } from "./paint.js";
import { called, clock, count, several } from "./words.js";

const LISTED = 200; // hits that are listed at first
const SHOWN = 1000; // ms that a step waits for its hit to be on the screen
const MANY = 10_000; // hits after which a search waits for a step that needs more
const MORE = 5000; // hits of an answer about several logs
const TOGETHER = 100; // logs in a request, which is short
const WINDOW = 256 << 10; // bytes that are searched first for the hit before a place
const STALE = 2000; // ms after which a step looks for new hits in logs that grow
const AGAIN = 1000; // ms before a request that got no answer is repeated

/** By state and event: the next state. An event that is absent changes nothing. */
const NEXT = {
  off: { asked: "looking" },
  looking: { asked: "looking", whole: "known", enough: "partly", lost: "waiting", refused: "refused", closed: "off" },
  waiting: { asked: "looking", again: "looking", closed: "off" }, // for the server
  partly: { asked: "looking", lacks: "looking", closed: "off" },
  known: { asked: "looking", stale: "looking", closed: "off" },
  refused: { asked: "looking", closed: "off" },
};

let kept = null;

/** The search that continues over the pages of *run*, or a new one. */
export function searchOf(run) {
  const found = kept?.run === run && kept.state !== "off" ? kept : document.createElement("search-bar");
  if (found !== kept) kept?.drop();
  kept = found;
  return found;
}

export class SearchBar extends HTMLElement {
  state = "off";
  hits = new Hits("log", []);
  matcher = null;
  place = { of: null, at: 0, on: false }; // of the user: the line that is marked, or the first on the screen
  presses = 0; // hits to go forward, or back if below 0: steps that were pressed while earlier ones are under way
  most = LISTED;

  /** @param {string} run  @param {{site: string, log: string}|null} stream the log on the page  @param {object[]|null} streams of a merged page */
  begin(run, stream, streams) {
    const moved = this.find?.scope === "log" && !(stream && this.here(stream));
    Object.assign(this, { run, stream, streams, level: "", limits: new Map() }); // level: of the rows on the page: rows of other levels are no hits
    if (moved || !stream) this.place = { of: null, at: 0, on: false };
    this.build();
    this.own.hidden = !stream && !streams;
    say(this.own, stream ? "this log" : "these logs");
    if (this.own.hidden && this.scope.value === "log") this.scope.value = "time";
    if (moved) this.search(false);
    this.tell();
    this.keep();
  }

  turn(event) {
    this.state = NEXT[this.state][event] ?? this.state;
  }

  /** Searches for what an address names, unless it is searched for already. *goes*: whether to go to the first hit. */
  recall(find, goes) {
    if (!find || JSON.stringify(find) === JSON.stringify(this.find)) return;
    this.input.value = find.text;
    this.regex.checked = find.regex;
    this.ignore.checked = !find.exact;
    this.only.checked = find.only;
    this.scope.value = ["run", "time"].includes(find.scope) ? find.scope : this.own.hidden ? "time" : "log";
    this.hidden = false;
    this.showOnly();
    this.search(goes);
  }

  /** Puts the search into the address, or takes it out. */
  keep() {
    if (this.isConnected || this.state !== "off") put(parsed(location.hash).bytes, this.find);
  }

  /** The page shows rows of *level* alone: searches again, and keeps the page's place. */
  leveled(level) {
    this.level = level;
    if (this.state !== "off") this.search(false);
  }

  build() {
    if (this.form) return;
    this.input = h("input", { type: "search", name: "pattern", "aria-label": "Search", placeholder: "Search", autocomplete: "off", autocapitalize: "off", spellcheck: "false", enterkeyhint: "search", maxlength: "1000" });
    this.regex = h("input", { type: "checkbox" });
    this.ignore = h("input", { type: "checkbox", checked: true });
    this.only = h("input", { type: "checkbox", on: { change: () => this.showOnly(true) } });
    this.own = h("option", { value: "log" });
    this.scope = h("select", { "aria-label": "Where to search" }, this.own, h("option", { value: "run" }, "the whole run"), h("option", { value: "time" }, "the whole run by time"));
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
      button("List", "List the hits", () => this.lists(this.list.hidden)),
      h("label", { title: "Leave all other lines out" }, this.only, "only hits"),
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

  lists(shown) {
    this.list.hidden = !shown;
    this.draw();
  }

  /** Shows nothing but hits, or all lines: then at the hit that was shown. */
  showOnly(goes = false) {
    this.classList.toggle("only", this.only.checked);
    if (this.find) this.find = { ...this.find, only: this.only.checked };
    if (this.only.checked) this.lists(true);
    else if (goes && this.shown) this.dispatchEvent(new CustomEvent("go", { detail: this.shown }));
    this.keep();
  }

  /** Ends the search, but shows it still. */
  drop() {
    this.turn("closed");
    this.over?.abort();
    [this.presses, this.first] = [0, null];
    this.matcher?.end();
    this.matcher = this.find = null;
  }

  open() {
    this.hidden = false;
    this.input.focus();
    this.input.select();
  }

  close() {
    this.drop();
    this.hits = new Hits("log", []);
    this.hidden = true;
    this.only.checked = false;
    this.showOnly();
    say(this.said, "");
    this.lists(false);
    this.dispatchEvent(new CustomEvent("closed"));
  }

  submitted(event) {
    event.preventDefault();
    if (this.find && this.hits.count && JSON.stringify(this.typed()) === JSON.stringify(this.find)) return this.step(1);
    this.search(true);
  }

  typed() {
    return { text: this.input.value, regex: this.regex.checked, exact: !this.ignore.checked, scope: this.scope.value, only: this.only.checked };
  }

  /** *goes*: whether to go to the first hit, if the log on the page has one. */
  search(goes) {
    this.drop();
    const scope = this.scope.value;
    this.hits = new Hits(scope === "time" || (scope === "log" && !this.stream) ? "time" : "log", scope === "log" ? (this.stream ? [this.stream] : this.streams) : null, scope === "log" ? this.limits : undefined);
    this.cut = 0; // lines without a match of which only the beginning was searched
    this.shown = null;
    this.most = LISTED;
    const find = this.typed();
    say(this.said, "");
    this.lists(find.only || (!this.stream && Boolean(find.text)));
    try {
      if (!find.text) return this.keep();
      const wanted = pattern(find.text, { regex: find.regex, ignore: !find.exact });
      this.matcher = new Matcher(wanted);
      this.question = { run: this.run, ignore: !find.exact, ...(this.level && { level: this.level }), ...(find.regex ? { regex: wanted.source } : { literals: [find.text] }) };
    } catch (error) {
      return say(this.said, error.message);
    }
    this.find = find;
    this.from = this.hits.order === "log" ? (this.place.head ?? this.place.at) : 0; // a traceback's lines have its level only if reading begins at its first line
    if (this.stream) this.hits.part(this.stream);
    this.first = goes && this.stream ? { ...this.place, on: false } : null; // the place of which the first hit is to be shown
    this.over = new AbortController();
    this.turn("asked");
    this.keep();
    this.dispatchEvent(new CustomEvent("found"));
    if (goes) {
      this.input.blur();
      this.dispatchEvent(new CustomEvent("asked"));
    }
    return this.looks(() => this.gather());
  }

  /** Does *work*, again and again while the server does not answer, and then takes the steps that waited for it. */
  async looks(work) {
    const { signal } = this.over;
    const ends = (event) => !signal.aborted && (this.turn(event), true);
    for (;;) {
      try {
        await work();
        if (!ends(this.hits.whole ? "whole" : "enough")) return;
        this.done = performance.now();
        this.tell();
        return this.walk();
      } catch (error) {
        if (signal.aborted || error.name === "AbortError") return;
        if (!(error instanceof Refused || error instanceof Endless)) throw error;
        const again = [0, 429, 503].includes(error.status); // 429: the server still ends an earlier search
        ends(again ? "lost" : "refused");
        if (error.status !== 429) say(this.said, again ? `${error.message}; trying again` : error.message);
        if (!again) return ([this.presses, this.first] = [0, null]);
      }
      await new Promise((done) => setTimeout(done, AGAIN));
      if (!ends("again")) return;
    }
  }

  /** The log on the page, as far as it is searched. */
  get mine() {
    return (this.stream && this.hits.parts.get(`${this.stream.site}/${this.stream.log}`)) ?? null;
  }

  /** Searches the log on the page from its place to its end, then its beginning, then the other logs. */
  async gather() {
    const { hits, mine, from } = this;
    const most = hits.count + MANY;
    for (let gap; mine && hits.count < most && (gap = mine.gap(from) ?? mine.gap(0)); ) await this.look([mine], { from: gap[0], to: gap[1] });
    if (!hits.listed && hits.count < most) await this.look(null);
    for (let parts; hits.count < most && (parts = hits.lacking()).length; ) await this.look(parts.slice(0, TOGETHER));
  }

  /** Searches for what a step lacks, see `Hits.beside`. */
  async fill({ lacks, direction, at = 0 }) {
    if (!lacks) return this.look(null);
    const [part] = lacks;
    if (lacks.length > 1 || (direction > 0 && this.hits.order === "time")) return this.look(lacks.slice(0, TOGETHER));
    if (direction > 0) return this.look([part], { from: at, to: part.gap(at)?.[1] });
    const until = part.spans.findLast(([, end]) => end < at)?.[1] ?? 0;
    for (let size = WINDOW; ; size *= 4) {
      const from = at === Infinity || this.level ? until : Math.max(until, at - size);
      const begun = await this.look([part], { from, to: at, last: true, within: from > until });
      if (begun < at) return null;
    }
  }

  /**
   * Searches each of *parts* from its first gap on; null: all other logs, which are not known yet. Or one log from *from*
   * to *to*; *last*: for the last hits there, and *within*: *from* may lie within a line. Returns where what was searched begins.
   */
  async look(parts, { from, to = Infinity, last = false, within = false } = {}) {
    const { hits, over } = this;
    const known = [...hits.parts.values()];
    const begins = new Map(parts?.map((part) => [part, from ?? part.gap(0)[0]]));
    const streams = (parts ?? known).map((part) => ({ site: part.site, log: part.log, ...(parts && { from: begins.get(part) }) }));
    const asked = { ...this.question, streams, others: !parts && known.length > 0, last, within, ...(to < Infinity && { to }), ...(!(parts?.length === 1) && { limit: MORE }) };
    const looked = new Map();
    let [named, exact, done, again, begun, rest] = [[], false, null, null, from ?? 0, new Map()];
    this.tell(" \u2026");
    for await (const said of objects("/api/search", asked, { signal: over.signal })) {
      if (said.streams) {
        exact = said.exact;
        named = said.streams.map((stream) => Object.assign(hits.part(stream), { sealed: stream.sealed }));
        if (!parts) hits.listed = true;
      }
      if (said.hits) {
        if (last) begun = said.hits[0][1];
        await this.take(said.hits, named, exact, (part, end) => last || part.cover(begins.get(part) ?? 0, end));
      }
      if (said.again) again = said.error;
      else if (said.error) named[said.k].why = said.error;
      if (said.progress) {
        const [k, , of] = said.progress;
        looked.set(k, said.progress);
        if (to === Infinity) named[k].end = Math.max(named[k].end, (begins.get(named[k]) ?? 0) + of);
      }
      if (said.rest) rest = new Map(said.rest);
      if (said.done) done = said;
      else this.tell(` \u2026 ${progress(looked)}`);
    }
    if (!done) throw new Refused(0, "the connection to flarelog web was lost");
    this.cut += done.cut;
    if (last && !done.capped) begun = rest.get(0) ?? begun;
    for (const [k, part] of named.entries()) {
      const begin = last ? begun : (begins.get(part) ?? 0);
      const end = last ? to : (rest.get(k) ?? to);
      if (!part.why && !(last && again) && begin < end) part.cover(begin, end);
    }
    for (const part of parts ?? []) if (!named.includes(part)) part.why = "it was removed";
    if (again) throw new Refused(0, again);
    this.tell();
    return begun;
  }

  /** Takes hits of an answer. *covers*: called with each log and the end of its last hit: all hits before it were sent. */
  async take(found, named, exact, covers) {
    const { signal } = this.over;
    const matching = exact ? null : this.matcher.find(found.map((hit, at) => [at, hit[3]]));
    const matched = matching && new Set((await waited(matching, () => say(this.said, "Waiting for the browser to start the search \u2026"))).map(([at]) => at));
    signal.throwIfAborted(); // a newer search has begun
    const by = Map.groupBy(found.filter((_, at) => !matched || matched.has(at)), ([k]) => named[k]);
    for (const [part, hits] of by) this.hits.add(part, hits.map(([, offset, end, text, time]) => ({ offset, end, text, time })));
    for (const [k, end] of new Map(found.map(([k, , end]) => [k, end]))) covers(named[k], end);
    if (!by.size) return;
    this.draw();
    this.dispatchEvent(new CustomEvent("found"));
    this.walk();
  }

  /** Draws the list with the next frame, once. */
  async draw() {
    if (this.drawing || this.list.hidden) return;
    this.drawing = true;
    await frame();
    this.drawing = false;
    const { all } = this.hits;
    const more = all.length > this.most && h("li", {}, h("button", { type: "button", on: { click: () => ((this.most *= 5), this.draw()) } }, `List ${count(Math.min(all.length - this.most, 4 * this.most))} more`));
    this.list.replaceChildren(...all.slice(0, this.most).map((hit) => this.listed(hit)), ...(more ? [more] : []));
    this.list.querySelector(".here")?.scrollIntoView({ block: "nearest" });
  }

  listed(hit) {
    const end = Math.max(hit.end, hit.offset + 1);
    return h(
      "li",
      { class: hit === this.shown && "here" },
      h("a", { href: `${path(this.run, hit.site, hit.log)}${fragment([hit.offset, end], this.find && { ...this.find, only: false })}`, on: { click: () => this.context() } },
        h("span", { class: "when" }, Number.isFinite(hit.key) ? clock(hit.key, true) : ""), h("span", { class: "where" }, `${hit.site}/${called(hit)}`), h("span", { class: "what" }, ...painted(hit.text, null, 300))),
    );
  }

  /** A hit of the list is opened among its neighbours. */
  context() {
    this.only.checked = false;
    this.showOnly();
  }

  /** Says how many hits there are, or which one is shown, if all before it are known; "+": there may be more hits. */
  tell(more = "") {
    if (!["looking", "partly", "known"].includes(this.state)) return;
    const failed = [...this.hits.parts.values()].filter(({ why }) => why);
    const cut = this.cut ? `; ${several(this.cut, "line is", "lines are")} longer than 65,536 characters: only that part was searched` : "";
    const lost = failed.length ? `; ${failed[0].site}/${called(failed[0])} was not searched: ${failed[0].why}${failed.length > 1 ? `, nor ${several(failed.length - 1, "more log")}` : ""}` : "";
    say(this.said, `${this.counted()}${more}${cut}${lost}`);
  }

  counted() {
    const { hits, shown } = this;
    const all = `${count(hits.count)}${hits.whole ? "" : "+"}`;
    if (!shown) return `${all} ${all === "1" ? "line" : "lines"}`;
    const part = hits.part(shown);
    const single = hits.listed && hits.parts.size === 1;
    const timed = hits.order === "time" || single;
    const of = timed ? all : `${count(part.hits.length)}${part.whole ? "" : "+"}`;
    const sure = hits.order === "time" ? hits.listed && hits.lacking().every(({ sure }) => sure > shown.key) : part.span(0)[1] > shown.offset;
    const rest = timed ? "" : ` in this log, ${all} in the run`;
    return sure ? `Hit ${count((hits.order === "time" ? hits.all : part.hits).indexOf(shown) + 1)} of ${of}${rest}` : `One of ${of} hits${rest}`;
  }

  here(hit) {
    return this.stream !== null && hit.site === this.stream.site && hit.log === this.stream.log;
  }

  /** Shows the next hit (1) or the one before (-1), from the place of the page. */
  step(direction) {
    if (["off", "refused"].includes(this.state)) return;
    this.presses += direction;
    const grows = [...this.hits.parts.values()].filter((part) => !part.sealed);
    if (this.state === "known" && grows.length && performance.now() - this.done > STALE) {
      for (const part of grows) part.reopen();
      this.turn("stale");
      this.looks(() => this.gather());
    }
    this.walk();
  }

  /** Goes on by as many hits as were pressed. Steps to hits that are not found yet wait for the search. */
  async walk() {
    if (this.walking) return;
    this.walking = true;
    try {
      for (let hit = null; hit || this.first || this.presses; ) {
        const direction = this.first ? 0 : Math.sign(this.presses);
        const found = this.first ? this.begins() : direction ? this.hits.beside(this.place, direction) : {};
        if (found.hit) {
          hit = found.hit;
          this.first = null;
          this.presses -= direction;
          this.place = { of: hit, at: hit.offset, on: true };
          if (this.presses && this.here(hit)) continue;
        } else if (found.hit === null) [this.presses, this.first] = [0, null];
        else if (found.direction && this.state === "partly") {
          this.turn("lacks");
          await this.looks(() => this.fill(found));
          continue;
        } else if (!hit) break;
        if (hit) await this.shows(hit); // meanwhile more hits may come
        hit = null;
      }
    } finally {
      this.walking = false;
    }
  }

  /** The hit to show first: of the log on the page, from its place on. */
  begins() {
    const { hits, mine, first } = this;
    const found = (mine && (hits.within(mine, first, 1) ?? hits.within(mine, { at: 0 }, 1))) ?? { hit: null };
    if (found.hit === null) this.lists(true);
    return found;
  }

  show(hit) {
    this.shown = hit;
    this.place = { of: hit, at: hit.offset, on: true };
    this.tell();
    if (this.only.checked) this.most = Math.max(this.most, this.hits.all.indexOf(hit) + 1);
    else this.dispatchEvent(new CustomEvent("go", { detail: hit }));
    return this.draw().then(() => this.only.checked && this.drawn?.());
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
    if (this.only.checked || (this.walking && !this.drawn)) return; // the walk continues from a hit that is not shown
    if (place.on && (place.at !== this.place.at || place.of?.log !== this.place.of?.log || place.of?.site !== this.place.of?.site) && place.of && this.hits.count) {
      this.shown = this.hits.part(place.of).hits.find((hit) => hit.offset === place.at) ?? this.shown;
      this.tell();
    }
    this.place = place;
    this.drawn?.();
    this.drawn = null;
  }
}

/** The share of the bytes that was searched. */
function progress(looked) {
  const [done, of] = [1, 2].map((at) => [...looked.values()].reduce((sum, each) => sum + each[at], 0));
  return of ? `${Math.floor((100 * done) / of)} %` : "";
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
