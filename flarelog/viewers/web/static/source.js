// @ts-check
/** The source of a list's rows: one log, whose places are bytes, or several logs in one order, whose places are cursors. */

import { ask, query } from "./api.js";
import { NOTE, STDERR, TRACE, order } from "./lines.js";

const ROWS = 400; // rows in a request
const JOINED = 64; // logs in a merge
const FEW = 4; // rows in the first request for an error: most errors are near, and each row may be far
const MOST_ROWS = 1000;
const NEARBY = 80; // rows before and behind a requested place: they arrive soon, and scrolling loads more

export class OneLog {
  /** *range*: the time to show alone, see `ranged`; *shared*: times are those of the receiver's clock, as in the logs beside it */
  constructor(stream, range = null, shared = false) {
    this.shared = shared;
    this.ahead = 0; // ms by which the clock of its lines is ahead of that of its times
    this.streams = [stream];
    this.range = range;
    this.limits = null; // the bytes of the range
    this.level = null;
    this.state = { first: 0, committed: 0, sealed: false };
  }

  /** The number of the line at *offset*, once the server has counted lines; null before. */
  async line(offset, signal) {
    const answer = await ask("/api/window", { stream: this.streams[0], at: offset, rows: 1 }, { signal });
    return answer.from === offset && !answer.about ? answer.line : null;
  }

  async window(spec, signal) {
    const answer = await ask("/api/window", { stream: this.streams[0], ...(this.level && { level: this.level }), ...(this.shared && { shared: true }), ...spec }, { signal });
    this.streams = [answer.stream]; // with the time when the log began: a later log of its name is another one
    this.ahead = answer.ahead ?? 0;
    const [from, to] = this.limits ?? [0, Infinity];
    this.state = { first: Math.max(answer.first, from), committed: Math.min(to, Math.max(answer.committed, this.state.committed)), sealed: answer.sealed || to < Infinity };
    return this.limits ? this.cut(answer, from, to) : answer;
  }

  /** *answer* without what is not in the range, as if the log began and ended there. */
  cut(answer, from, to) {
    const { rows, left } = answer;
    const [head, tail] = [from, to].map((at) => rows.findIndex((row) => row[1] >= at)).map((at) => (at < 0 ? rows.length : at));
    const lines = rows.slice(0, head).filter((row) => !(row[4] & NOTE)).length + (left ?? []).slice(0, head + 1).reduce((sum, each) => sum + each, 0);
    return {
      ...answer,
      rows: rows.slice(head, tail),
      ...(left && { left: head ? [0, ...left.slice(head + 1, tail + 1)] : left.slice(0, tail + 1) }),
      ...(answer.line && head && { line: answer.line + lines }),
      from: Math.max(from, answer.from),
      to: Math.min(to, answer.to),
      at: Math.min(to, Math.max(from, answer.at)),
      committed: this.state.committed,
      open: to < Infinity ? [] : answer.open,
    };
  }

  /** Finds the bytes of the range. */
  async bound(signal) {
    const at = async (time) => (await this.window({ time, rows: 1 }, signal)).at;
    const { from, to } = this.range;
    this.limits = await Promise.all([from ? at(from) : 0, to ? at(to) : Infinity]);
  }

  /** The bytes of the range, by SITE/LOG. */
  bounds() {
    return this.streams.map(({ site, log }) => [`${site}/${log}`, this.limits ?? [0, Infinity]]);
  }

  /** Whether the line at *offset* may be shown. */
  has(offset) {
    return !this.limits || (offset >= this.limits[0] && offset < this.limits[1]);
  }

  /** The place *where*, or the nearest one in the range. */
  async inside(where, signal) {
    const [from, to] = this.limits;
    if (where.end) return to < Infinity ? { at: to } : where;
    if (where.share !== undefined) return { at: Math.floor(from + Math.min(1, where.share) * (Math.min(to, this.state.committed) - from)) };
    const { at } = where.at === undefined ? await this.window({ ...where, rows: 1 }, signal) : where;
    return { at: Math.min(to, Math.max(from, at)) };
  }

  /** The rows around *where*: `{end}`, `{at}`, `{line}`, `{time}` or `{share}`. */
  async open(where, signal) {
    if (this.range && !this.limits) await this.bound(signal);
    if (this.limits) where = await this.inside(where, signal);
    const share = where.share === undefined ? undefined : Math.min(1, where.share);
    return this.window(where.end ? { end: true, rows: 1, before: ROWS } : { ...where, share, before: NEARBY, rows: NEARBY }, signal);
  }

  /** The rows before *lines*; null if there are none. */
  async earlier(lines, signal) {
    return this.begins(lines) ? null : this.window({ at: lines.from, before: ROWS, rows: 0 }, signal);
  }

  async later(lines, signal) {
    return this.ends(lines) ? null : this.window({ at: lines.to, rows: ROWS }, signal);
  }

  /** Bytes of the log that *lines* do not cover. */
  unseen(lines) {
    return Math.max(0, lines.from - this.state.first) + (this.ends(lines) ? 0 : this.state.committed - lines.to);
  }

  /** Whether *lines* begin where the log does. */
  begins(lines) {
    return lines.from <= this.state.first;
  }

  /** Whether *lines* go as far as the log. */
  ends(lines) {
    return lines.whole || lines.to >= this.state.committed;
  }

  get sealed() {
    return this.state.sealed;
  }

  /** Does nothing: lines know where they begin and end. */
  forgot() {}

  tails(lines) {
    return [{ ...this.streams[0], from: lines.to }];
  }

  /** Records how long the log is. */
  at(lines, places) {
    for (const [, offset, committed, sealed] of places) {
      lines.to = Math.max(lines.to, offset);
      if (committed !== undefined) this.state.committed = Math.max(this.state.committed, committed);
      if (sealed !== undefined) this.state.sealed = sealed;
    }
  }

  /** The place to open for *row* to be the first on the screen. */
  placed(lines, row) {
    return { at: row[1], top: true };
  }

  /** The next row with an error below *row* of *lines*, or at it; *on*: below it. `{row}`, or null. */
  async nextError(lines, row, on, signal) {
    const found = await nextError(this.streams[0], row ? lines.head(row)[1] : 0, row?.[on ? 2 : 1] ?? 0, signal);
    return found && { row: found };
  }

  /** Asks for the present length of the log. */
  look(signal) {
    return this.window({ end: true, rows: 1 }, signal);
  }

  /** The share of the log that lies before *offset*. */
  share(offset) {
    const { first, committed } = this.state;
    return committed > first ? Math.min(1, Math.max(0, (offset - first) / (committed - first))) : 0;
  }
}

export class Merged {
  /** @param {{run: string, streams?: {site: string, log: string}[], site?: string, rank?: number, order: string, range?: any}} wanted */
  constructor({ range, ...wanted }) {
    this.wanted = this.asked = wanted;
    this.range = range ?? null;
    this.level = null;
    this.streams = [];
    this.before = this.after = /** @type {number[]} */ ([]); // by k: where each log continues, either way: twice an offset, and one more behind the notes there
    this.first = this.last = false; // whether no log continues, either way
    this.limits = /** @type {any} */ (null); // by k: the places of the range's begin, and of its end
    this.ended = []; // by k: whether the log had ended, and the note of its end lies before `after`
    this.sealed = false;
    this.lengths = new Map(); // by SITE/LOG
    this.left = 0; // logs beyond those that are merged
    this.numbers = new Map(); // of sites, which tell their colours
    this.copies = ""; // the sentence about logs that repeat others, and are left out
  }

  async merged(spec, signal) {
    const answer = await ask("/api/merged", { ...this.wanted, ...(this.level && { level: this.level }), ...this.inside(spec) }, { signal });
    answer.arrivals?.forEach((time, at) => (answer.rows[at].arrived = time));
    return answer;
  }

  /** *spec*; logs of which the range has no more lines that way are passed over. */
  inside({ before, after, ...spec }) {
    const [from, to] = this.limits ?? [[], []];
    const end = (k) => 2 * (this.lengths.get(this.wanted.streams?.[k] && `${this.wanted.streams[k].site}/${this.wanted.streams[k].log}`) ?? 0) + 1;
    return { ...spec, before: before?.map((at, k) => (at > (from[k] ?? 0) ? at : 0)), after: after?.map((at, k) => (at < (to[k] ?? Infinity) ? at : Math.max(at, end(k)))) };
  }

  /** Names the logs to merge, if the page does not: JOINED at most. */
  async choose(signal) {
    const named = this.wanted.streams?.map(({ site, log }) => `${site}/${log}`);
    const wanted = [...new Set(this.wanted.site ? [this.wanted.site] : this.wanted.streams?.slice(0, JOINED).map(({ site }) => site))].map((site) => `&${query({ site })}`);
    const { sites, copies = "" } = await ask(`/api/run?${query({ run: this.wanted.run })}${wanted.join("")}`, undefined, { signal });
    this.numbers = new Map(sites.map(({ site, number }) => [site, number]));
    const every = sites.flatMap(({ site, streams }) => streams.map(({ log, sealed, committed, copy }) => ({ site, log, sealed, committed, copy })));
    const all = named ? every : every.filter(({ copy }) => !copy);
    const mine = this.wanted.rank !== undefined ? all : all.filter(({ site, log }) => !named || named.includes(`${site}/${log}`));
    this.copies = named ? "" : copies;
    this.sealed = mine.every(({ sealed }) => sealed);
    this.lengths = new Map(mine.map(({ site, log, committed }) => [`${site}/${log}`, committed]));
    if (named || this.wanted.rank !== undefined) return;
    const streams = all.slice(0, JOINED).map(({ site, log }) => ({ site, log }));
    this.wanted = { ...this.wanted, streams };
    this.left = all.length - streams.length;
  }

  /** Where an old list or place names logs that are gone, the run is listed again: other logs may have their names. */
  async open(where, signal) {
    try {
      return await this.opened(where, signal);
    } catch (error) {
      if (![404, 410].includes(error.status) || (this.asked.streams && !where.streams)) throw error;
      this.wanted = this.asked;
      return this.opened(where.streams ? { end: true } : where, signal);
    }
  }

  async opened(where, signal) {
    await this.choose(signal);
    if (where.streams) this.wanted = { ...this.wanted, streams: where.streams, rank: undefined };
    const { from = 0, to = null } = this.range ?? {};
    if (this.range) await this.bound(from, to, signal);
    const last = to ? { before: this.limits[1] } : { end: true };
    const at = where.row ? { row: where.row, time: where.near } : where.after ? { after: where.after } : where.time > from && where.time < (to ?? Infinity) ? (this.range ? { after: await this.places(where.time, signal) } : { time: where.time }) : (where.start || where.time <= from) ? (from ? { after: this.limits[0] } : {}) : last;
    const answer = this.cut(await this.merged({ ...at, rows: ROWS }, signal), at === last);
    if (where.time !== undefined && !answer.rows.length && answer.over) return { ...(await this.open({ end: true }, signal)), past: true };
    this.streams = answer.streams.map((stream) => ({ run: this.wanted.run, ...stream }));
    this.before = answer.before;
    this.after = answer.after;
    this.ended = answer.ended;
    this.first = Boolean(where.start) || (at === last && answer.over);
    this.last = at === last || answer.over;
    return answer;
  }

  /** Finds the places of the range in all logs. */
  async bound(from, to, signal) {
    this.limits = await Promise.all([from, to].map((time) => (time ? this.places(time, signal) : [])));
    if (to) this.sealed = true;
  }

  async places(time, signal) {
    return (await this.merged({ time, rows: 1, level: undefined }, signal)).before;
  }

  /** *answer* without rows that are not in the range; *back*: it goes backward. */
  cut(answer, back) {
    if (!this.limits) return answer;
    const [from, to] = this.limits;
    const kept = answer.rows.map((row) => !(order(row) < from[row[0]] || order(row) >= to[row[0]]));
    const reached = back ? answer.before.every((at, k) => at <= (from[k] ?? 0)) : answer.after.every((at, k) => at >= (to[k] ?? Infinity));
    return { ...answer, over: answer.over || reached, rows: answer.rows.filter((_, at) => kept[at]), keys: answer.keys.filter((_, at) => kept[at]) };
  }

  /** The bytes of the range, by SITE/LOG. */
  bounds() {
    const [from, to] = this.limits ?? [[], []];
    return this.streams.map(({ site, log }, k) => [`${site}/${log}`, [Math.floor((from[k] ?? 0) / 2), Math.floor((to[k] ?? Infinity) / 2)]]);
  }

  /** Whether the line of log *k* at *offset* may be shown. */
  has(k, offset) {
    const [from, to] = this.bounds()[k][1];
    return offset >= from && offset < to;
  }

  /** The opened logs, with the time when each began: a later log of the same name does not continue a page. */
  get same() {
    return { streams: this.streams, rank: undefined };
  }

  async earlier(lines, signal) {
    if (this.first) return null;
    const before = [...this.before];
    const answer = this.cut(await this.merged({ ...this.same, before, rows: ROWS }, signal), true);
    if (before.some((place, k) => place !== this.before[k])) return this.earlier(lines, signal); // rows were forgotten meanwhile
    this.before = answer.before;
    this.first = answer.over;
    return answer;
  }

  async later(lines, signal) {
    if (this.last) return null;
    const answer = this.cut(await this.merged({ ...this.same, after: this.after, rows: ROWS }, signal), false);
    this.after = answer.after;
    this.ended = answer.ended;
    this.last = answer.over;
    return answer;
  }

  placed(lines, row) {
    const after = [...this.after];
    const from = lines.rows.indexOf(row); // below 0: it is an open row at the end
    for (const [k, offset, , , flags] of from < 0 ? [] : lines.rows.slice(from).reverse()) after[k] = 2 * offset + (flags & NOTE ? 0 : 1);
    return { after, streams: this.streams.map(({ site, log, begun }) => ({ site, log, begun })) };
  }

  /** The place of *row* to open for rows of another level: `placed` passes over rows that the present level leaves out. */
  releveled(lines, row) {
    return !this.level ? this.placed(lines, row) : row.time > 0 && row.time < Infinity ? { time: row.time } : { end: true };
  }

  /** As that of one log, with the place to open for the row. */
  async nextError(lines, row, on, signal) {
    const place = this.placed(lines, row);
    if (on) place.after[row[0]] = 2 * row[2] + (row[4] & NOTE ? 1 : 0);
    for (let { after } = place; ; ) {
      const answer = this.cut(await this.merged({ ...this.same, after, rows: 1, level: "error" }, signal), false);
      const found = answer.rows.find((one) => !(one[4] & (NOTE | TRACE)));
      if (found) return { row: found, place: { ...place, after: answer.first } };
      if (answer.over) return null;
      ({ after } = answer);
    }
  }

  /** Bytes of the logs that were not read. */
  unseen() {
    const offset = (places, k) => Math.floor((places[k] ?? 0) / 2);
    return this.streams.reduce((sum, { site, log }, k) => {
      const length = this.lengths.get(`${site}/${log}`) ?? 0;
      return sum + (this.first ? 0 : offset(this.before, k)) + (this.last ? 0 : Math.max(0, length - offset(this.after, k)));
    }, 0);
  }

  begins() {
    return this.first;
  }

  ends() {
    return this.last;
  }

  /** The page dropped its first rows, *before*, or its last ones, *behind*: scrolling there asks for them again. */
  forgot(before, behind) {
    for (const [k, , end, , flags] of before) this.before[k] = Math.max(this.before[k], 2 * end + (flags & NOTE ? 1 : 0));
    for (const [k, offset, , , flags] of behind) this.after[k] = Math.min(this.after[k], 2 * offset + (flags & NOTE ? 0 : 1));
    if (before.length) this.first = false;
    if (behind.length) this.last = false;
  }

  /** The stream tells again that a log has ended: the note is not new, though its place may be above all rows in *lines*. */
  tails(lines) {
    for (const [k, place] of this.after.entries()) if (this.ended[k] && place % 2) lines.last[k] = Math.max(lines.last[k] ?? 0, place - 1);
    return this.streams.map((stream, k) => ({ ...stream, from: Math.floor((this.after[k] ?? 0) / 2) }));
  }

  at(lines, places) {
    for (const [k, offset] of places) this.after[k] = Math.max(this.after[k] ?? 0, 2 * offset);
  }

  share() {
    return null;
  }
}

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
    if (answer.rows.length >= most && most < MOST_ROWS) most = Math.min(MOST_ROWS, most * 8);
    else {
      const stream = rows.at(-1)?.[4] & STDERR;
      const head = rows.findLast((row) => !(row[4] & TRACE) && (row[4] & STDERR) === stream)?.[1]; // its traceback may continue
      at = head > at ? head : answer.to;
    }
  }
}
