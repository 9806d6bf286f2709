/** Where a list gets its rows: one log, whose places are bytes, or several logs in one order, whose places are cursors. */

import { ask, query } from "./api.js";

const PAGE = 400; // rows of a question
const MOST = 64; // logs that are merged
const AROUND = 80; // rows before and behind the place that was asked for: soon there, and more come as one scrolls

export class OneLog {
  constructor(stream) {
    this.streams = [stream];
    this.level = null;
    this.state = { first: 0, committed: 0, sealed: false };
  }

  /** The number of the line at *offset*, once the server has counted; null before. */
  async line(offset, signal) {
    const answer = await ask("/api/window", { stream: this.streams[0], at: offset, rows: 1 }, { signal });
    return answer.from === offset && !answer.about ? answer.line : null;
  }

  async window(spec, signal) {
    const answer = await ask("/api/window", { stream: this.streams[0], ...(this.level && { level: this.level }), ...spec }, { signal });
    this.state = { first: answer.first, committed: Math.max(answer.committed, this.state.committed), sealed: answer.sealed };
    return answer;
  }

  /** The rows around *where*: `{end}`, `{at}`, `{line}`, `{time}` or `{share}`. */
  open(where, signal) {
    return this.window(where.end ? { end: true, rows: 1, before: PAGE } : { ...where, before: AROUND, rows: AROUND }, signal);
  }

  /** Those before *lines*; null where there are none. */
  async earlier(lines, signal) {
    return lines.from <= this.state.first ? null : this.window({ at: lines.from, before: PAGE, rows: 0 }, signal);
  }

  async later(lines, signal) {
    return this.ends(lines) ? null : this.window({ at: lines.to, rows: PAGE }, signal);
  }

  /** Bytes of the log that *lines* do not cover. */
  unseen(lines) {
    return Math.max(0, lines.from - this.state.first) + (this.ends(lines) ? 0 : this.state.committed - lines.to);
  }

  /** Whether *lines* go as far as the log. */
  ends(lines) {
    return lines.whole || lines.to >= this.state.committed;
  }

  get sealed() {
    return this.state.sealed;
  }

  tails(lines) {
    return [{ ...this.streams[0], from: lines.to }];
  }

  /** Takes note of how far the log is. */
  at(lines, places) {
    for (const [, offset, committed, sealed] of places) {
      lines.to = Math.max(lines.to, offset);
      if (committed !== undefined) this.state.committed = Math.max(this.state.committed, committed);
      if (sealed !== undefined) this.state.sealed = sealed;
    }
  }

  /** How far it is now. */
  async look(signal) {
    await this.window({ end: true, rows: 1 }, signal);
    return this.state.committed;
  }

  /** The share of the log that lies before *offset*. */
  share(offset) {
    const { first, committed } = this.state;
    return committed > first ? Math.min(1, Math.max(0, (offset - first) / (committed - first))) : 0;
  }
}

export class Merged {
  /** @param {{run: string, streams?: {site: string, log: string}[], rank?: number, order: string}} wanted */
  constructor(wanted) {
    this.wanted = wanted;
    this.level = null;
    this.streams = [];
    this.before = this.after = null; // by k: where each log goes on, either way; null: there is no more
    this.sealed = false;
    this.left = 0; // logs that are not among those that are merged
  }

  async merged(spec, signal) {
    return ask("/api/merged", { ...this.wanted, ...(this.level && { level: this.level }), ...spec }, { signal });
  }

  /** Names the logs, where the page does not: as many as are merged at most. */
  async choose(signal) {
    const named = this.wanted.streams?.map(({ site, log }) => `${site}/${log}`);
    const wanted = [...new Set(this.wanted.streams?.slice(0, MOST).map(({ site }) => site))].map((site) => `&${query({ site })}`);
    const { sites } = await ask(`/api/run?${query({ run: this.wanted.run })}${wanted.join("")}`, undefined, { signal });
    const all = sites.flatMap(({ site, streams }) => streams.map(({ log, sealed }) => ({ site, log, sealed })));
    const mine = this.wanted.rank !== undefined ? all : all.filter(({ site, log }) => !named || named.includes(`${site}/${log}`));
    this.sealed = mine.every(({ sealed }) => sealed);
    if (named || this.wanted.rank !== undefined) return;
    this.wanted = { ...this.wanted, streams: all.slice(0, MOST).map(({ site, log }) => ({ site, log })) };
    this.left = all.length - this.wanted.streams.length;
  }

  async open(where, signal) {
    await this.choose(signal);
    const at = where.time !== undefined ? { time: where.time } : where.start ? {} : { end: true };
    const answer = await this.merged({ ...at, rows: PAGE }, signal);
    if (where.time !== undefined && !answer.rows.length) return { ...(await this.open({ end: true }, signal)), past: true };
    this.streams = answer.streams.map((stream) => ({ run: this.wanted.run, ...stream }));
    this.before = answer.before;
    this.after = this.offsets = answer.after;
    this.last = Boolean(at.end) || answer.rows.length < PAGE;
    return answer;
  }

  async earlier(lines, signal) {
    if (!this.before) return null;
    const answer = await this.merged({ before: this.before, rows: PAGE }, signal);
    this.before = answer.rows.length ? answer.before : null;
    return answer;
  }

  async later(lines, signal) {
    if (this.last) return null;
    const answer = await this.merged({ after: this.after, rows: PAGE }, signal);
    this.after = this.offsets = answer.after;
    this.last = answer.rows.length < PAGE;
    return answer;
  }

  unseen() {
    return 0;
  }

  ends() {
    return this.last;
  }

  tails() {
    return this.streams.map(({ run, site, log }, k) => ({ run, site, log, from: this.offsets[k] ?? 0 }));
  }

  at(lines, places) {
    for (const [k, offset] of places) this.offsets[k] = offset;
  }

  async look() {
    return null;
  }

  share() {
    return null;
  }
}
