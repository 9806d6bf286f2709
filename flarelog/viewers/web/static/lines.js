// @ts-check
/**
 * The rows that a page holds of a log, or of several merged logs: no DOM, no network.
 *
 * A row is `[k, offset, end, text, flags, time, spans, key, line]`, and its offset is its only identity: a row that comes
 * again replaces the earlier one, so that a resumed stream doubles no row, and a bar moves in its place.
 *
 * Where logs are merged by time, the server gives each row the key of its place (`row.time`). Live rows are put there: at
 * equal keys by log, and never before an earlier row of their log.
 */

export const BAR = 1;
export const NOTE = 2;
export const ERROR = 4;
export const WARNING = 8;
export const TRACE = 16;
export const CUT = 32;
export const STDERR = 64;
export const REST = 128; // the row's line begins above the row
export const STRIPPED = 512; // control characters were removed from the row's line
const BEGINS = 256; // a traceback, a stack or a panic begins in the row, and goes on in rows with TRACE

/**
 * @typedef {[k: number, offset: number, end: number, text: string, flags: number, time?: number|null, spans?: any[]|null, key?: number|null, line?: number]
 *   & {left: number, time: number, arrived?: number, open?: string, over?: boolean}} Row
 * @typedef {{row: Row, number: number|null, hidden: number, tail: Row|null, folded?: boolean}} Item of the view
 */

const LIVE = 3000; // rows that are kept while new ones come at the end
const KEPT_ROWS = 20000; // rows that are kept while the user reads older ones, or selects text
const FOLDED = 4; // rows: a shorter traceback is not folded

export const STRIP = "open:strip"; // the key of the row into which bars are folded

/** The sort key of a row within its log: a note comes before the line at its offset. @param {Row} row */
export function order(row) {
  return row[1] * 2 + (row[4] & NOTE ? 0 : 1);
}

/** The time that is shown of a row: its line's, or that of its arrival where logs are in that order. @param {Row} row */
export function timeOf(row) {
  return row.arrived ?? row[5];
}

/** The identity of a row. @param {Row} row */
export function key(row) {
  return row.open ?? (row[4] & NOTE ? `${row[0]}:${row[1]}:${row[3]}` : `${row[0]}:${row[1]}`);
}

/** The number of lines in *rows*, with the lines that are left out before each. @param {Row[]} rows */
function lined(rows) {
  return rows.reduce((sum, row) => sum + row.left + (row[4] & NOTE ? 0 : 1), 0);
}

export class Lines {
  opened = new Set(); // keys of the first rows of tracebacks that are unfolded
  level = 0; // flags of which a row must have one; 0: all rows
  merged = false;
  timed = false; // whether the logs are merged by time
  room = Infinity; // rows at the end, at most, for bars that move: more are folded into one
  /** @type {Row[]} */
  rows = [];
  from = 0; // the bytes that the rows cover, of a single log
  to = 0;
  whole = false; // whether only open rows lie behind the rows
  /** @type {number|null} of the line at `from` */
  number = null;
  about = false; // whether `number` is an estimate
  rest = 0; // lines behind the last row that the level leaves out; `left` of a row counts those before it
  /** @type {number[]} by k: the order of the last row */
  last = [];
  /** @type {number[]} by k: the key of the latest row */
  times = [];
  /** @type {Row[][]} by k: the rows at its end that may still change, such as bars */
  open = [];
  /** @type {Item[]|null} */
  viewed = null;

  clear() {
    [this.rows, this.last, this.times, this.open] = [[], [], [], []];
    this.from = this.to = this.rest = 0;
    this.whole = this.about = false;
    this.number = null;
    this.changed();
  }

  changed() {
    this.viewed = null;
  }

  /** Replaces all rows with those of an answer, because the page is at another place. @param {Row[]} rows  @param {Record<string, any>} answer */
  replace(rows, { from = 0, to = 0, line = null, about = false, open = [], left, keys } = {}) {
    this.clear();
    this.from = from;
    this.number = line ?? null;
    this.about = about;
    this.append(rows, left, { keys });
    this.to = to;
    this.opens(open);
  }

  /** The rows go to the end of a log, if any are *open* there. */
  opens(open = []) {
    this.whole = open.length > 0;
    for (const [k, rows] of Map.groupBy(open, (row) => row[0])) this.reopen(k, rows);
  }

  /** Puts *rows* of the level before all others. Returns how many are new. @param {Row[]} rows  @param {Record<string, any>} answer */
  prepend(rows, { from = this.from, line = null, about = false, left = [], keys = [] } = {}) {
    const known = new Set(this.rows.slice(0, 200).map(key));
    for (const [at, row] of rows.entries()) [row.left, row.time] = [left[at] ?? 0, keys[at]];
    const fresh = rows.filter((row) => !known.has(key(row)) && (!this.level || row[4] & (this.level | NOTE)));
    const rest = left.at(-1) ?? 0;
    if (this.rows.length) this.rows[0].left += rest;
    else this.rest += rest;
    this.rows = fresh.concat(this.rows);
    this.from = from;
    const counted = lined(fresh) + rest;
    this.number = line ?? (this.number === null ? null : this.number - counted);
    this.about = line === null ? this.about : about;
    this.changed();
    return fresh.length;
  }

  /** Sets the rows that may still change at the end of log *k*. *still*: nothing has come for long. @param {number} k  @param {Row[]} rows */
  reopen(k, rows, still = false) {
    this.open[k] = rows.map((row, at) => Object.assign(/** @type {Row} */ ([...row]), { 0: k, open: `open:${k}:${at}`, over: still || row[7] === 100 }));
    this.changed();
  }

  /** Adds the open rows to *shown*: those that are over at the places of their logs' last rows, the others at the end. @param {Item[]} shown */
  pin(shown) {
    const item = (/** @type {Row} */ row) => ({ row, number: null, hidden: 0, tail: null });
    const open = this.open.flatMap((rows) => rows ?? []);
    const over = this.merged ? open.filter((row) => row.over) : [];
    for (const row of over) shown.splice(shown.findLastIndex((one) => one.row[0] === row[0]) + 1, 0, item(row));
    const moving = open.filter((row) => !over.includes(row));
    if (moving.length > this.room) {
      const [k, offset, , text] = moving.reduce((one, other) => ((other[7] ?? 100) < (one[7] ?? 100) ? other : one));
      const strip = Object.assign(/** @type {any} */ ([k, offset, offset, `${moving.length} bars, the slowest: ${text}`, BAR]), { open: STRIP });
      const folded = !this.opened.has(STRIP);
      shown.push({ ...item(strip), hidden: moving.length, folded });
      if (folded) return;
    }
    shown.push(...moving.map(item));
  }

  /**
   * Appends *rows*; a row that is held already is replaced. Returns how many are new. *left*: lines that are left out before
   * each, and behind the last; the stream leaves out none, and gives no *left*. *keys*: of rows in order; *live*: the rows are
   * not in order yet; *late* takes those whose place is above all rows, and which are not held; without it they are the first.
   * @param {Row[]} rows  @param {number[]} left  @param {{keys?: (number|null)[], live?: boolean, late?: Row[]|null}} how
   */
  append(rows, left = [], { keys = [], live = false, late = null } = {}) {
    let fresh = 0;
    let near = -1; // where the last row was put
    const sorts = live && this.timed;
    for (const [at, row] of rows.entries()) {
      row.left = 0;
      const place = order(row);
      if (this.timed) row.time = this.times[row[0]] = keys[at] ?? row[7] ?? row[5] ?? this.times[row[0]] ?? Infinity;
      if (this.open[row[0]]?.length && !(row[4] & (BAR | NOTE))) this.open[row[0]] = this.open[row[0]].filter((open) => open[1] >= row[2]);
      if (!(place <= this.last[row[0]])) {
        this.last[row[0]] = place;
        this.rest += left[at] ?? 0;
        const behind = row[1] < this.to; // it was open, and the lines left out lie behind it
        // The stream tells a number where the lines before the row are not all rows, as behind bars in several rows.
        const told = row[8] && this.number !== null && !this.about ? Math.max(0, row[8] - this.number - lined(this.rows)) : null;
        if (this.level && !(row[4] & (this.level | NOTE))) {
          this.rest = (behind ? this.rest : (told ?? this.rest)) + 1;
          continue;
        }
        row.left = told ?? (behind ? 0 : this.rest);
        this.rest = behind ? Math.max(0, this.rest - 1) : 0;
        near = sorts ? this.placed(row, near) : this.rows.length;
        if (late && !near && this.rows.length) {
          late.push(row);
          near = -1;
          continue;
        }
        if (near === this.rows.length) this.rows.push(row);
        else this.rows.splice(near, 0, row);
        fresh += 1;
      } else {
        near = -1;
        if (this.settle(row, place)) fresh += 1;
      }
    }
    this.rest += left.at(-1) ?? 0;
    this.changed();
    return fresh;
  }

  /** The index for the live *row*; *near*: that of the row put before it, or -1. */
  placed(row, near) {
    const { rows } = this;
    const later = (other) => other[0] !== row[0] && (other.time > row.time || (other.time === row.time && other[0] > row[0]));
    let at = rows.length;
    if (row.time === Infinity) row.time = rows.at(-1)?.time ?? -Infinity;
    else if (rows[near]?.[0] === row[0]) for (at = near + 1; at < rows.length && !later(rows[at]); ) at += 1;
    else while (at > 0 && later(rows[at - 1])) at -= 1;
    return at;
  }

  /** Inserts a row that is not the last of its log, or replaces the row at its place. Returns whether it was inserted. */
  settle(row, place) {
    for (let at = this.rows.length - 1; at >= 0; at -= 1) {
      const other = this.rows[at];
      if (other[0] !== row[0]) continue;
      const its = order(other);
      if (its === place && (!(row[4] & NOTE) || other[3] === row[3])) {
        row.left = other.left;
        row.time = other.time;
        this.rows[at] = row;
        return false;
      }
      if (its < place || (its === place && row[4] & NOTE)) {
        row.time = other.time;
        this.rows.splice(at + 1, 0, row);
        const next = this.rows.slice(at + 2).find((one) => one.left);
        if (next && !(row[4] & NOTE)) next.left -= 1; // the row is one of those lines
        return true;
      }
    }
    return false; // it lies before all rows that are held
  }

  /** Drops rows at the beginning, many at a time. Returns them. */
  trimHead(keep = LIVE) {
    const surplus = this.rows.length - keep;
    if (surplus <= keep / 4) return [];
    const gone = this.rows.splice(0, surplus);
    if (this.number !== null) this.number += lined(gone) + this.rows[0].left;
    this.rows[0].left = 0;
    this.from = this.rows[0][1];
    this.changed();
    return gone;
  }

  /** Drops rows at the end, after many were put before them. Returns them. */
  trimTail(keep = KEPT_ROWS) {
    if (this.rows.length <= keep) return [];
    this.to = this.rows[keep][1];
    this.rest = this.rows[keep].left;
    const gone = this.rows.splice(keep);
    this.whole = false;
    this.open = [];
    this.last = [];
    for (const row of this.rows) this.last[row[0]] = order(row);
    this.changed();
    return gone;
  }

  /** Records that the line of *row*, which is held, has *number*. */
  counted(row, number) {
    const before = this.rows.slice(0, this.rows.indexOf(row));
    this.number = number - lined(before) - row.left;
    this.about = false;
    this.changed();
  }

  get full() {
    return this.rows.length >= KEPT_ROWS;
  }

  /**
   * The rows to show: `{row, number, hidden, tail}`; `hidden` rows of a traceback are folded into its first row, and `tail`
   * is its last row, which names the exception.
   */
  view() {
    if (this.viewed) return this.viewed;
    /** @type {Item[]} */
    const shown = [];
    let number = this.number;
    for (let at = 0; at < this.rows.length; at += 1) {
      const row = this.rows[at];
      if (number !== null) number += row.left;
      const its = number;
      if (number !== null && !(row[4] & NOTE)) number += 1;
      if (this.level && !(row[4] & (this.level | NOTE))) continue;
      const end = this.traceback(at);
      if (end === at + 1) {
        shown.push({ row, number: its, hidden: 0, tail: null });
        continue;
      }
      const count = this.rows.slice(at, end).filter((one) => sameWriter(one, row)).length;
      const folds = count >= FOLDED;
      const folded = folds && !this.opened.has(key(row));
      shown.push({ row, number: its, hidden: folds ? count - 1 : 0, tail: folded ? this.rows[end - 1] : null });
      for (at += 1; at < end; at += 1) {
        const inner = this.rows[at];
        if (number !== null) number += inner.left;
        if (!folded || !sameWriter(inner, row)) shown.push({ row: inner, number, hidden: 0, tail: null });
        if (number !== null) number += 1;
      }
      at -= 1;
    }
    if (!this.level) this.pin(shown);
    this.viewed = shown;
    return shown;
  }

  /**
   * The index behind the traceback whose first row is at *at*; *at* + 1 if no traceback begins there. Rows of the log's
   * other stream may lie in between.
   */
  traceback(at) {
    const head = this.rows[at];
    if (!(head[4] & BEGINS)) return at + 1;
    let end = at + 1;
    for (let next = end; next < this.rows.length && this.rows[next][0] === head[0] && !(this.rows[next][4] & NOTE); next += 1) {
      if (!sameWriter(this.rows[next], head)) continue;
      if (!(this.rows[next][4] & TRACE)) break;
      end = next + 1;
    }
    return end;
  }

  /**
   * The first row of the traceback that *row* continues, or that the log's other stream may continue behind *row*; *row*
   * itself if there is none.
   */
  head(row) {
    const at = this.rows.indexOf(row);
    const heads = [0, STDERR].map((stream) => {
      const own = (one, index) => index <= at && (one[4] & (STDERR | NOTE)) === stream;
      if (!((this.rows.findLast(own)?.[4] ?? 0) & TRACE)) return at;
      return Math.max(0, this.rows.findLastIndex((one, index) => own(one, index) && !(one[4] & TRACE)));
    });
    return this.rows[Math.min(...heads)] ?? row;
  }

  /** The index in the view of the last row of log *k* at or before *offset*; -1 if there is none. */
  find(offset, k = 0) {
    const view = this.view();
    let found = -1;
    for (let at = 0; at < view.length; at += 1) {
      const row = view[at].row;
      if (row[0] === k && !(row[4] & NOTE) && row[1] <= offset) found = at;
      if (!this.merged && row[1] > offset) break;
    }
    return found;
  }

  /** Unfolds the traceback that contains the row at *offset* of log *k*. */
  unfold(offset, k = 0) {
    const item = this.view().findLast(({ row, tail }) => row[0] === k && row[1] <= offset && (row[1] === offset || offset < (tail?.[2] ?? 0)));
    if (item?.tail) {
      this.opened.add(key(item.row));
      this.changed();
    }
  }

  /** The rows from *first* to *last*, both keys, with folded rows. @param {string} first  @param {string} last */
  between(first, last) {
    const keys = this.rows.map(key);
    const [from, to] = [keys.indexOf(first), keys.indexOf(last)];
    return from < 0 || to < 0 ? [] : this.rows.slice(Math.min(from, to), Math.max(from, to) + 1);
  }
}

/** Whether one process wrote *row* and *other*: false for two logs, and for two streams of a container. @param {Row} row  @param {Row} other */
function sameWriter(row, other) {
  return row[0] === other[0] && (row[4] & STDERR) === (other[4] & STDERR);
}
