/** Where a list gets its rows: one log, whose places are bytes, or several logs in one order, whose places are cursors. */

import { ask } from "./api.js";

const PAGE = 400; // rows of a question
const AROUND = 160; // rows before the place that was asked for

export class OneLog {
  constructor(stream) {
    this.streams = [stream];
    this.level = null;
    this.state = { first: 0, committed: 0, sealed: false };
  }

  async window(spec, signal) {
    const answer = await ask("/api/window", { stream: this.streams[0], ...(this.level && { level: this.level }), ...spec }, { signal });
    this.state = { first: answer.first, committed: Math.max(answer.committed, this.state.committed), sealed: answer.sealed };
    return answer;
  }

  /** The rows around *where*: `{end}`, `{at}`, `{line}`, `{time}` or `{share}`. */
  open(where, signal) {
    return this.window(where.end ? { end: true, rows: 1, before: PAGE } : { ...where, before: AROUND, rows: PAGE - AROUND }, signal);
  }

  /** Those before *lines*; null where there are none. */
  async earlier(lines, signal) {
    return lines.from <= this.state.first ? null : this.window({ at: lines.from, before: PAGE, rows: 0 }, signal);
  }

  async later(lines, signal) {
    return this.ends(lines) ? null : this.window({ at: lines.to, rows: PAGE }, signal);
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
  /** @param {{run: string, streams?: {site: string, log: string}[], rank?: string, order: string}} wanted */
  constructor(wanted) {
    this.wanted = wanted;
    this.level = null;
    this.streams = [];
    this.before = this.after = null;
    this.offsets = [];
    this.sealed = false;
  }

  async merged(spec, signal) {
    return ask("/api/merged", { ...this.wanted, ...(this.level && { level: this.level }), ...spec }, { signal });
  }

  async open(where, signal) {
    const at = where.time !== undefined ? { time: where.time } : where.start ? { start: true } : { end: true };
    const answer = await this.merged({ ...at, rows: PAGE }, signal);
    this.streams = answer.streams.map((stream) => ({ run: this.wanted.run, ...stream }));
    this.before = answer.before;
    this.after = answer.after;
    this.offsets = answer.at ?? [];
    this.sealed = this.streams.length > 0 && this.streams.every((stream) => stream.sealed);
    return answer;
  }

  async earlier(lines, signal) {
    if (!this.before) return null;
    const answer = await this.merged({ before: this.before, rows: PAGE }, signal);
    this.before = answer.rows.length ? answer.before : null;
    return answer;
  }

  async later(lines, signal) {
    if (!this.after) return null;
    const answer = await this.merged({ after: this.after, rows: PAGE }, signal);
    this.after = answer.after;
    this.offsets = answer.at ?? this.offsets;
    return answer;
  }

  ends() {
    return !this.after;
  }

  tails() {
    const from = new Map(this.offsets.map(([k, offset]) => [k, offset]));
    return this.streams.map(({ run, site, log }, k) => ({ run, site, log, from: from.get(k) ?? 0 }));
  }

  at(lines, places) {
    for (const [k, offset] of places) {
      const known = this.offsets.find((place) => place[0] === k);
      if (known) known[1] = offset;
      else this.offsets.push([k, offset]);
    }
  }

  async look() {
    return null;
  }

  share() {
    return null;
  }
}
