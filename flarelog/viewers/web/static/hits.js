// @ts-check
/**
 * The hits of a search, the bytes of each log that were searched, and the hit next to a place. No DOM, no network.
 *
 * A hit is `{site, log, offset, end, text, key}`; its log and its offset are its identity. Its `key` is its time among the
 * hits of all logs: never before that of an earlier hit of its log, and without a time that of the hit before it.
 * Two orders: "log", log after log, by the times of their first hits; "time", by the times of all hits.
 */

const LEAP = 3_600_000; // ms: a time so far ahead of the next hit's is a date in the line's text

/**
 * @typedef {{site: string, log: string, name?: string}} Stream
 * @typedef {Stream & {offset: number, end: number, text: string, time: number|null, key: number, leaps?: boolean}} Hit
 * @typedef {{of: Stream|null, at: number, on: boolean, time?: number, head?: number}} Place *on*: `at` is the last hit
 */

/** What is known of one log. */
export class Part {
  /** @type {Hit[]} */
  hits = [];
  /** @type {[number, number][]} the bytes that were searched */
  spans = [];
  /** @type {[number, number]} the bytes to search */
  limits = [0, Infinity];
  end = 0; // of the log, as it was searched
  sealed = false;
  /** @type {string|null} why the log cannot be searched */
  why = null;
  /** @type {number|null} the number of all hits, as the server counted them */
  total = null;

  /** @param {Stream} stream  @param {string} id */
  constructor({ site, log, name }, id) {
    this.site = site;
    this.log = log;
    this.name = name;
    this.id = id;
  }

  /** Records that [*from*, *to*) was searched. @param {number} from  @param {number} to */
  cover(from, to) {
    const apart = this.spans.filter(([begin, end]) => end < from || begin > to);
    const joined = this.spans.filter((span) => !apart.includes(span));
    apart.push([Math.min(from, ...joined.map(([begin]) => begin)), Math.max(to, ...joined.map(([, end]) => end))]);
    this.spans = apart.sort(([one], [other]) => one - other);
  }

  /** Forgets that nothing is behind the end: a log that is not sealed may have grown. */
  reopen() {
    if (!this.sealed) this.spans = this.spans.map(([begin, end]) => [Math.min(begin, this.end), Math.min(end, this.end)]);
  }

  /** The searched bytes around *at*; empty at *at* if it was not searched. */
  span(at) {
    return this.spans.find(([begin, end]) => begin <= at && at <= end) ?? [at, at];
  }

  /** The bytes not searched yet from *at* on, up to the next searched ones; null if there are none. */
  gap(at) {
    const [, from] = this.span(at);
    return from < Infinity ? [from, this.spans.find(([begin]) => begin > from)?.[0] ?? Infinity] : null;
  }

  /** The least stretch with all bytes that were not searched. @returns {[number, number]} */
  get unsearched() {
    const [begin, end] = this.spans.at(-1) ?? [0, 0];
    return [this.gap(0)?.[0] ?? 0, end === Infinity ? begin : Infinity];
  }

  get whole() {
    return this.why !== null || !this.gap(0);
  }

  /** Whether `sum` is the number of all hits. */
  get counted() {
    return this.whole || this.total !== null;
  }

  get sum() {
    return this.whole ? this.hits.length : Math.max(this.hits.length, this.total ?? 0);
  }

  /** The last hit before which none is missing; undefined without one. */
  get last() {
    const [, end] = this.span(0);
    return this.hits.findLast((hit) => hit.offset < end);
  }

  /** The key before which no hit is missing. */
  get sure() {
    return this.whole ? Infinity : (this.last?.key ?? -Infinity);
  }
}

export class Hits {
  /** *streams*: the logs to search; null: all of the run, which `list` names. *limits*: the bytes to search in some, by SITE/LOG. */
  constructor(order, streams, limits = new Map()) {
    this.order = order;
    this.limits = limits;
    /** @type {Map<string, Part>} */
    this.parts = new Map();
    this.count = 0;
    this.listed = streams !== null;
    for (const stream of streams ?? []) this.part(stream);
  }

  /** The log *stream*, which is added if it is new. @param {Stream} stream @returns {Part} */
  part(stream) {
    const id = `${stream.site}/${stream.log}`;
    const known = this.parts.get(id);
    if (known) return known;
    const part = new Part(stream, id);
    const [from, to] = (part.limits = this.limits.get(id) ?? part.limits);
    if (from) part.cover(0, from);
    if (to < Infinity) part.cover(to, Infinity);
    this.parts.set(id, part);
    return part;
  }

  /** Adds hits of *part*; those that are known are skipped. */
  add(part, hits) {
    const known = new Set(part.hits.map(({ offset }) => offset));
    const [from, to] = part.limits;
    const fresh = hits.filter(({ offset }) => !known.has(offset) && offset >= from && offset < to).map((hit) => ({ ...hit, site: part.site, log: part.log, name: part.name }));
    if (!fresh.length) return;
    this.count += fresh.length;
    part.hits = [...part.hits, ...fresh].sort((one, other) => one.offset - other.offset);
    let [key, next] = [-Infinity, null];
    for (const hit of part.hits.toReversed()) {
      hit.leaps = next !== null && hit.time - next > LEAP;
      next = hit.leaps ? next : (hit.time ?? next);
    }
    for (const hit of part.hits) hit.key = key = hit.leaps ? key : Math.max(key, hit.time ?? key);
    this.sorted = null;
  }

  /** All known hits by their times. */
  get all() {
    this.sorted ??= [...this.parts.values()].flatMap((part) => part.hits).sort((one, other) => this.compare(one, other));
    return this.sorted;
  }

  /** @param {Hit} one  @param {Hit} other */
  compare(one, other) {
    return compared(one.key, other.key) || compared(this.part(one).id, this.part(other).id) || one.offset - other.offset;
  }

  /** How many of the first hits in `all` have their places: no hit that is not known yet comes before them. */
  get sure() {
    const lacking = this.lacking();
    const ends = lacking.flatMap(({ last }) => last ?? []);
    if (!this.listed || ends.length < lacking.length) return 0;
    return ends.length ? this.all.indexOf(ends.reduce((one, other) => (this.compare(one, other) < 0 ? one : other))) + 1 : this.all.length;
  }

  /** What to search for *most* hits to have their places, as `beside`; null: they have. @param {number} most */
  unsure(most) {
    if (this.whole || this.sure >= most) return null;
    const until = this.all[most - 1]?.key ?? Infinity;
    return { direction: 1, ...(this.listed && { lacks: this.lacking().filter(({ sure }) => sure <= until) }) };
  }

  /** The logs with a hit, by the times of their first hits. */
  found() {
    return [...this.parts.values()].filter(({ hits }) => hits.length).sort((one, other) => compared(one.hits[0].key, other.hits[0].key) || compared(one.id, other.id));
  }

  get whole() {
    return this.listed && this.lacking().length === 0;
  }

  get counted() {
    return this.listed && this.lacking().every(({ counted }) => counted);
  }

  /** The number of hits, as far as they are known or counted. */
  get sum() {
    return [...this.parts.values()].reduce((sum, part) => sum + part.sum, 0);
  }

  /** The logs that may have grown since they were searched. */
  growing() {
    return [...this.parts.values()].filter(({ sealed }) => !sealed);
  }

  /** The logs that were not searched to their ends, first those whose next hits may be the earliest. */
  lacking() {
    return [...this.parts.values()].filter((part) => !part.whole).map((part) => ({ part, sure: part.sure })).sort((one, other) => compared(one.sure, other.sure)).map(({ part }) => part);
  }

  /**
   * The hit after *place* (1), or the one before it (-1), from the last hit on to the first one: `{hit}`, null if there is
   * none; or, while it is unknown, what to search for it: `{lacks, direction, at}`; without `lacks`, all logs.
   * @param {Place} place  @param {number} direction
   * @returns {{hit: Hit|null}|{hit?: undefined, lacks?: Part[], direction: number, at?: number}}
   */
  beside(place, direction) {
    const own = place.of && this.parts.get(`${place.of.site}/${place.of.log}`);
    return this.order === "time" ? this.later(place, direction, own) : ((own && this.within(own, place, direction)) ?? this.next(own, direction));
  }

  /** As `beside`, in *part* alone; null if no hit is left in it. @param {Part} part  @param {{at: number, on?: boolean, head?: number}} place  @param {number} direction */
  within(part, { at, on, head }, direction) {
    const hit = direction > 0 ? part.hits[before(part.hits, on ? at + 1 : at)] : part.hits[before(part.hits, at) - 1];
    const [begin, end] = part.span(head ?? at);
    const certain = part.why !== null || (direction > 0 ? (hit ? end >= hit.offset : end === Infinity) : begin <= (hit?.offset ?? 0));
    return certain ? hit && { hit } : { lacks: [part], direction, at: direction > 0 ? end : begin };
  }

  /** As `beside`, for a place after the last hit of *own*, or before its first one. */
  next(own, direction) {
    const unknown = [...this.parts.values()].filter((part) => part !== own && !part.hits.length && !part.whole);
    if (!this.listed) return { direction };
    if (unknown.length) return { lacks: unknown, direction };
    const parts = this.found();
    const at = parts.indexOf(own);
    const part = parts.at((at < 0 && direction > 0 ? 0 : Math.max(0, at) + direction) % (parts.length || 1));
    if (!part) return { hit: null };
    return this.within(part, { at: direction > 0 ? 0 : Infinity, on: false }, direction) ?? { hit: null };
  }

  /** As `beside`, by the times of all hits. @param {Place} place  @param {number} direction  @param {Part|null|undefined} own */
  later({ at, on, time }, direction, own) {
    const key = own?.hits.find(({ offset }) => on && offset === at)?.key ?? own?.hits.findLast(({ offset }) => offset < at)?.key ?? time ?? -Infinity;
    const after = (hit, part) => (part === own ? hit.offset - at || (on ? 0 : direction) : compared(hit.key, key) || (own ? compared(part.id, own.id) : direction));
    const passed = (hit) => direction * after(hit, this.part(hit)) > 0;
    const { all } = this;
    const hit = direction > 0 ? all.find(passed) : all.findLast(passed);
    const until = direction > 0 ? (hit?.key ?? Infinity) : key;
    const unknown = this.lacking().filter(({ sure }) => sure <= until);
    if (!this.listed) return { direction };
    if (unknown.length) return { lacks: unknown, direction: 1 };
    return { hit: hit ?? all.at(direction > 0 ? 0 : -1) ?? null };
  }
}

/** The order of two keys, which may be infinite, or of two texts. */
function compared(one, other) {
  return one === other ? 0 : one < other ? -1 : 1;
}

/** The number of *hits* before *offset*. @param {Hit[]} hits  @param {number} offset */
function before(hits, offset) {
  let [low, high] = [0, hits.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (hits[middle].offset < offset) low = middle + 1;
    else high = middle;
  }
  return low;
}
