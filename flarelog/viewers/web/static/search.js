// @ts-check
/**
 * A search over a log, or all logs of a run, and the walk from hit to hit: no DOM. The server finds the candidates, and the
 * page applies the whole pattern to them. A browser's own search sees only the rows in the document.
 *
 * The log on the page is searched first, from the place of the page on, and then the others. A search that reached the
 * server's limit is continued until all hits are known, or MANY: the others are only counted, until a step needs them.
 */

import { Refused, objects, waited } from "./api.js";
import { Hits } from "./hits.js";
import { Endless, Matcher, pattern } from "./matching.js";
import { called, count, several } from "./words.js";

/**
 * @import { Find } from "./address.js"
 * @import { Hit, Part, Place, Stream } from "./hits.js"
 * @typedef {{lacks?: Part[], direction: number, at?: number}} Lack
 * @typedef {{say(text: string): void, found(): void, none(): void, show(hit: Hit): void}} View
 */

const ARRIVES = 1000; // ms that a step waits for its hit to be on the screen
const MANY = 10_000; // hits after which a search waits for a step that needs more
const MORE = 5000; // hits of an answer about several logs
const TOGETHER = 100; // logs in a request, which is short
const WINDOW = 256 << 10; // bytes that are searched first for the hit before a place
const STALE = 2000; // ms after which new hits are looked for in logs that grow
const AGAIN = 1000; // ms before a request that got no answer is repeated

/**
 * By machine, state and event: the next state, and the method that is called then with what the event brings. What is absent
 * changes nothing. The steps that wait for hits (walk) follow the events of the requests (state).
 */
const SEEK = ["seeking", "soon"];
const NEXT = {
  state: {
    any: { closed: ["off", "end"] },
    off: { asked: ["looking", "gather"], early: ["early", "rest"], lacks: ["off", "rest"] },
    early: { lacks: ["early", "rest"] }, // the page does not know its logs, or the bytes of its range, yet
    looking: { whole: ["known", "tell"], enough: ["partly", "tell"], uncounted: ["counting", "count"], lost: ["waiting", "wait"], refused: ["refused", "refuse"] },
    waiting: { again: ["looking", "repeat"] }, // for the server
    counting: { lacks: ["looking", "fill"], unsure: ["looking", "fill"], enough: ["partly", "tell"], uncounted: ["partly", "tell"], lost: ["waiting", "wait"], refused: ["partly", "tell"] },
    partly: { lacks: ["looking", "fill"], unsure: ["looking", "fill"] },
    known: { stale: ["looking", "renew"] },
    refused: { lacks: ["refused", "rest"] },
  },
  walk: {
    any: { closed: ["resting", "forget"] },
    resting: { asked: SEEK, pressed: SEEK },
    seeking: { now: ["seeking", "seek"], pressed: SEEK, came: SEEK, whole: SEEK, enough: SEEK, uncounted: SEEK, hit: ["showing", "show"], none: ["resting", "forget"], refused: ["resting", "forget"] },
    showing: { seen: SEEK },
  },
};

export class Search {
  state = "off"; // see NEXT
  walk = "resting";
  hits = new Hits("log", []);
  level = ""; // of the rows on the page: rows of other levels are no hits
  cut = 0; // lines without a match of which only the beginning was searched
  presses = 0; // hits to go forward, or back if below 0: steps that were pressed while earlier ones are under way
  progress = ""; // of the request under way, in percent
  exact = false; // whether the server alone decides which lines match
  done = 0; // ms: when all hits were known
  over = new AbortController(); // of the request under way
  /** @type {Map<string, [number, number]>} the bytes to search in the logs on the page, by SITE/LOG */
  limits = new Map();
  /** @type {Stream|null} the log on the page */
  stream = null;
  /** @type {Place} of the user: the line that is marked, or the first on the screen */
  place = { of: null, at: 0, on: false };
  /** @type {Place|null} the place of which the first hit is to be shown */
  first = null;
  /** @type {Hit|null} */
  shown = null;
  /** @type {Find|null} */
  find = null;
  /** @type {Matcher|null} */
  matcher = null;
  /** @type {Record<string, any>} */
  question = {};
  /** @type {() => Promise<any>} the requests under way, or the last ones */
  work = async () => {};
  /** @type {ReturnType<typeof setTimeout>|undefined} */
  late;

  /** @param {string} run  @param {View} view */
  constructor(run, view) {
    this.run = run;
    this.view = view;
  }

  /** @param {string} event  @param {any[]} given */
  turn(event, ...given) {
    for (const machine of ["state", "walk"]) {
      const [next, act] = NEXT[machine][this[machine]][event] ?? NEXT[machine].any[event] ?? [];
      if (next) this[machine] = next;
      if (act) this[act](...given);
    }
  }

  /**
   * Searches for *find* in *streams*; null: in all logs. *goes*: whether to go to the first hit of the log on the page.
   * *early*: waits for the page to ask again. Throws SyntaxError.
   * @param {Find} find  @param {Stream[]|null} streams  @param {boolean} goes  @param {boolean} [early]
   */
  ask(find, streams, goes, early = false) {
    this.turn("closed");
    this.hits = new Hits(find.scope === "time" || (find.scope === "log" && !this.stream) ? "time" : "log", streams, find.scope === "log" ? this.limits : undefined);
    [this.cut, this.shown] = [0, null];
    if (!find.text) return;
    const wanted = pattern(find.text, { regex: find.regex, ignore: !find.exact });
    this.matcher = new Matcher(wanted);
    this.question = { run: this.run, ignore: !find.exact, ...(this.level && { level: this.level }), ...(find.field ? { field: find.text } : find.regex ? { regex: wanted.source } : { literals: [find.text] }) };
    this.find = find;
    if (this.stream) this.hits.part(this.stream);
    if (goes && this.stream) this.first = { ...this.place, on: false };
    this.turn(early ? "early" : "asked");
  }

  /** Ends the search; its hits stay. */
  end() {
    this.over.abort();
    this.matcher?.end();
    this.matcher = this.find = null;
  }

  // The requests: *work* makes one after the other, and begins again if the server did not answer.

  /** @param {() => Promise<any>} work */
  async attempt(work) {
    this.work = work;
    this.over.abort();
    const { signal } = (this.over = new AbortController());
    try {
      await work();
      if (signal.aborted) return;
      this.done = performance.now();
      this.turn(this.hits.whole ? "whole" : this.exact && !this.hits.counted ? "uncounted" : "enough");
      this.view.found(); // the list may lack hits
    } catch (error) {
      if (signal.aborted || error.name === "AbortError") return;
      if (!(error instanceof Refused || error instanceof Endless)) throw error;
      this.turn(error instanceof Refused && [0, 429, 503].includes(error.status) ? "lost" : "refused", error); // 429: the server still ends an earlier search
    }
  }

  /** @param {Refused} error */
  wait(error) {
    const { signal } = this.over;
    if (error.status !== 429) this.view.say(`${error.message}; trying again`);
    setTimeout(() => signal.aborted || this.turn("again"), AGAIN);
  }

  repeat() {
    this.attempt(this.work);
  }

  /** @param {Error} error */
  refuse(error) {
    this.view.say(error.message);
  }

  /** Searches the log on the page from its place to its end, then its beginning, then the other logs. */
  gather() {
    const { hits, mine, place } = this;
    const from = hits.order === "log" ? (place.head ?? place.at) : 0; // a traceback's lines have its level only if reading begins at its first line
    return this.attempt(async () => {
      const most = hits.count + MANY;
      for (let gap; mine && hits.count < most && (gap = mine.gap(from) ?? mine.gap(0)); ) await this.look([mine], { from: gap[0], to: gap[1] });
      if (!hits.listed && hits.count < most) await this.look(null);
      for (let parts; hits.count < most && (parts = hits.lacking()).length; ) await this.look(parts.slice(0, TOGETHER));
    });
  }

  /** Looks for new hits in the logs that grow, if the last search was a while ago. */
  refresh() {
    if (this.state === "known" && performance.now() - this.done > STALE && this.hits.growing().length) this.turn("stale");
  }

  renew() {
    for (const part of this.hits.growing()) part.reopen();
    return this.gather();
  }

  /** Searches for what a list of the first *most* hits by time lacks. @param {number} most */
  list(most) {
    const lack = this.hits.unsure(most);
    if (lack) this.turn("unsure", lack);
  }

  /** Searches for what a step lacks, see `Hits.beside`. @param {Lack} lack */
  fill(lack) {
    return this.attempt(() => this.filled(lack));
  }

  /** @param {Lack} lack */
  async filled({ lacks, direction, at = 0 }) {
    if (!lacks) return this.look(null);
    const [part] = lacks;
    if (lacks.length > 1 || (direction > 0 && this.hits.order === "time")) return this.look(lacks.slice(0, TOGETHER));
    if (direction > 0) return this.look([part], { from: at, to: part.gap(at)?.[1] });
    const until = part.spans.findLast(([, end]) => end < at)?.[1] ?? 0;
    for (let size = WINDOW; ; size *= 4) {
      const from = at === Infinity || this.level ? until : Math.max(until, at - size);
      if ((await this.look([part], { from, to: at, last: true, within: from > until })) < at) return null;
    }
  }

  /** Counts the hits of logs of which too many were found to be shown. */
  count() {
    return this.attempt(async () => {
      if (!this.hits.listed) await this.look(null);
      const parts = this.hits.lacking().filter((part) => !part.counted);
      const alone = parts.filter((part) => part === this.mine || part.limits[1] < Infinity);
      const others = parts.filter((part) => !alone.includes(part));
      const all = [...alone.map((part) => [part]), ...Array.from({ length: Math.ceil(others.length / TOGETHER) }, (_, at) => others.slice(at * TOGETHER, (at + 1) * TOGETHER))];
      for (const some of all) {
        const streams = some.map(({ site, log, unsearched: [from] }) => ({ site, log, from }));
        const to = some.length > 1 ? Infinity : some[0].unsearched[1];
        const { again } = await this.answer({ streams, counts: true, ...(to < Infinity && { to }) }, ({ counted: [k, number] = [] }, named) => {
          if (k === undefined) return;
          const [from] = named[k].unsearched;
          named[k].total = number + named[k].hits.filter(({ offset }) => offset < from || offset >= to).length;
        });
        if (again) throw new Refused(0, again);
      }
    });
  }

  /**
   * Searches each of *parts* from its first gap on; null: all other logs, which are not known yet. Or one log from *from*
   * to *to*; *last*: for the last hits there, and *within*: *from* may lie within a line. Returns where what was searched begins.
   * @param {Part[]|null} parts  @param {{from?: number, to?: number, last?: boolean, within?: boolean}} [where]
   */
  async look(parts, { from, to = Infinity, last = false, within = false } = {}) {
    const { hits } = this;
    const known = [...hits.parts.values()];
    const begins = new Map(parts?.map((part) => [part, from ?? part.gap(0)?.[0] ?? 0]));
    const streams = (parts ?? known).map((part) => ({ site: part.site, log: part.log, ...(parts && { from: begins.get(part) }) }));
    let begun = from ?? 0;
    let rest = new Map();
    const { named, again, done } = await this.answer(
      { streams, others: !parts && known.length > 0, last, within, ...(to < Infinity && { to }), ...(!last && { limit: parts?.length === 1 ? MANY : MORE }) },
      async (said, named) => {
        if (said.streams && !parts) hits.listed = true;
        if (said.hits && last) begun = said.hits[0][1];
        if (said.hits) await this.take(said.hits, named, (part, end) => last || part.cover(begins.get(part) ?? 0, end));
        if (said.progress && to === Infinity) named[said.progress[0]].end = Math.max(named[said.progress[0]].end, (begins.get(named[said.progress[0]]) ?? 0) + said.progress[2]);
        if (said.rest) rest = new Map(said.rest);
      },
    );
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

  /**
   * Sends a request, and gives the objects of its answer to *each*, with the logs that it names.
   * @param {Record<string, any>} asked  @param {(said: any, named: Part[]) => any} each
   */
  async answer(asked, each) {
    const { signal } = this.over;
    const looked = new Map();
    /** @type {Part[]} */
    let named = [];
    let [done, again] = [/** @type {any} */ (null), null];
    this.progress = "";
    this.tell();
    for await (const said of objects("/api/search", { ...this.question, ...asked }, { signal })) {
      if (said.streams) {
        this.exact = said.exact;
        named = said.streams.map((stream) => Object.assign(this.hits.part(stream), { sealed: stream.sealed }));
      }
      await each(said, named);
      if (said.again) again = said.error;
      else if (said.error) named[said.k].why = said.error;
      if (said.progress) looked.set(said.progress[0], said.progress);
      const [read, of] = [1, 2].map((at) => [...looked.values()].reduce((sum, each) => sum + each[at], 0));
      this.progress = of ? ` ${Math.floor((100 * read) / of)} %` : "";
      if (said.done) done = said;
      else this.tell();
    }
    signal.throwIfAborted();
    if (!done) throw new Refused(0, "the connection to flarelog web was lost");
    return { named, again, done };
  }

  /**
   * Takes hits of an answer. *covers*: called with each log and the end of its last hit: all hits before it were sent.
   * @param {any[][]} found  @param {Part[]} named  @param {(part: Part, end: number) => any} covers
   */
  async take(found, named, covers) {
    const { signal } = this.over;
    const matching = this.exact ? null : this.matcher?.find(found.map((hit, at) => [at, hit[3]]));
    const matched = matching && new Set((await waited(matching, () => this.view.say("Waiting for the browser to start the search \u2026"))).map(([at]) => at));
    signal.throwIfAborted(); // a newer search has begun
    const by = Map.groupBy(found.filter((_, at) => !matched || matched.has(at)), ([k]) => named[k]);
    for (const [part, hits] of by) this.hits.add(part, hits.map(([, offset, end, text, time]) => ({ offset, end, text, time })));
    for (const [k, end] of new Map(found.map(([k, , end]) => [k, end]))) covers(named[k], end);
    if (!by.size) return;
    this.view.found();
    this.turn("came");
  }

  // The walk from hit to hit.

  /** Shows the next hit (1) or the one before (-1), from the place of the page. @param {number} direction */
  step(direction) {
    this.presses += direction;
    this.refresh();
    this.turn("pressed");
  }

  /** Presses that come together, as when the page arrives at a place, are one walk. */
  soon() {
    queueMicrotask(() => this.turn("now"));
  }

  /** Goes on by as many hits as were pressed. Hits of the log on the page that are only passed are not shown. */
  seek() {
    clearTimeout(this.late);
    for (let hit = null; ; ) {
      const found = !hit || (this.presses && this.here(hit)) ? this.next() : null;
      if (!found?.hit) return hit ? this.turn("hit", hit) : found && found.hit !== null ? this.turn("lacks", found) : this.turn("none");
      hit = found.hit;
      this.presses -= this.first ? 0 : Math.sign(this.presses);
      this.first = null;
      this.place = { of: hit, at: hit.offset, on: true };
    }
  }

  /** The hit to go to, as `Hits.beside`: first one of the log on the page, from its place on. Null if there is nothing to do. */
  next() {
    const { hits, mine, first } = this;
    if (!first) return this.presses ? hits.beside(this.place, Math.sign(this.presses)) : null;
    const found = (mine && (hits.within(mine, first, 1) ?? hits.within(mine, { at: 0 }, 1))) ?? { hit: null };
    if (found.hit === null) this.view.none();
    return found;
  }

  /** Shows *hit*; the walk goes on once it is on the screen: quick steps would otherwise show none of their hits. @param {Hit} hit */
  show(hit) {
    this.shown = hit;
    this.tell();
    this.late = setTimeout(() => this.turn("seen"), ARRIVES);
    this.view.show(hit);
  }

  /** Called when the page shows *place*. @param {Place} place */
  reached(place) {
    const { of, at } = this.place;
    if (place.on && place.of && (place.at !== at || place.of.log !== of?.log || place.of.site !== of?.site) && this.hits.sum) {
      this.shown = this.hits.part(place.of).hits.find((hit) => hit.offset === place.at) ?? this.shown;
      this.tell();
    }
    this.place = place;
    this.turn("seen");
  }

  rest() {
    this.turn("none");
  }

  forget() {
    [this.presses, this.first] = [0, null];
    clearTimeout(this.late);
  }

  // What is known.

  /** The log on the page, as far as it is searched. */
  get mine() {
    return (this.stream && this.hits.parts.get(`${this.stream.site}/${this.stream.log}`)) ?? null;
  }

  /** Whether *hit* is in the log on the page. @param {Stream} hit */
  here(hit) {
    return this.stream !== null && hit.site === this.stream.site && hit.log === this.stream.log;
  }

  /** Says how many hits there are, or which one is shown, if all before it are known; "+": there may be more hits. */
  tell() {
    if (["off", "early", "waiting", "refused"].includes(this.state)) return;
    const more = this.state === "looking" || this.state === "counting" ? ` \u2026${this.progress}` : "";
    const failed = [...this.hits.parts.values()].filter(({ why }) => why);
    const cut = this.cut ? `; ${several(this.cut, "line is", "lines are")} longer than 65,536 characters: only that part was searched` : "";
    const lost = failed.length ? `; ${failed[0].site}/${called(failed[0])} was not searched: ${failed[0].why}${failed.length > 1 ? `, nor ${several(failed.length - 1, "more log")}` : ""}` : "";
    this.view.say(`${this.counted()}${more}${cut}${lost}`);
  }

  counted() {
    const { hits, shown } = this;
    const number = ({ sum, counted }) => `${count(sum)}${counted ? "" : "+"}`;
    const all = number(hits);
    if (!shown) return `${all} ${all === "1" ? "line" : "lines"}`;
    const part = hits.part(shown);
    const timed = hits.order === "time";
    const alone = timed || (hits.listed && hits.parts.size === 1);
    const of = alone ? all : number(part);
    const sure = timed ? hits.listed && hits.lacking().every(({ sure }) => sure > shown.key) : part.span(0)[1] > shown.offset;
    const rest = alone ? "" : ` in this log, ${all} in the run`;
    return sure ? `Hit ${count((timed ? hits.all : part.hits).indexOf(shown) + 1)} of ${of}${rest}` : `One of ${of} hits${rest}`;
  }
}
