/** Chooses lines of a list, by a click, by keys, by a link or by a search, and copies them. */

import { fragment, put } from "./address.js";
import { path } from "./api.js";
import { say } from "./dom.js";
import { CUT, NOTE, key } from "./lines.js";
import { Moving } from "./moving.js";
import { count, several } from "./words.js";

const COPIED = 16e6; // UTF-16 units, at most, that are copied of lines that the page does not hold

export class Choosing extends Moving {
  cursor() {
    const index = this.list.current === null ? -1 : this.list.indexOf(this.list.current);
    return index < 0 ? null : this.list.lines.view()[index];
  }

  choose(item, more = false) {
    const { list } = this;
    const [k, offset, end, text, flags] = item.row;
    if (!more && list.current === key(item.row)) return this.clear();
    if (more && this.anchor && this.anchor[0] !== k) return say(this.told, "A mark stays within one log.");
    if (list.follow) list.turn(false);
    list.current = key(item.row);
    list.seeks = false;
    if (!(flags & NOTE)) {
      if (more && this.anchor && this.anchor[0] === k) this.mark(k, Math.min(offset, this.anchor[1]), Math.max(end, this.anchor[2], offset + 1));
      else this.mark(k, offset, Math.max(end, offset + 1), true);
    }
    say(this.told, `${item.number && !(flags & NOTE) ? `Line ${count(item.number)}: ` : ""}${text.slice(0, 300)}`);
    list.draw();
  }

  mark(k, from, to, anchor = false) {
    if (anchor) this.anchor = [k, from, to];
    this.list.marked = [k, from, to];
    if (this.stream && !this.wanted.side) put([from, to], this.search.find);
  }

  clear() {
    this.stay.held.length = 0;
    this.list.current = this.list.marked = this.anchor = null;
    this.list.seeks = false;
    put(null, this.search.find);
    say(this.told, "");
    if (!this.search.hidden) this.search.close();
    this.list.draw();
  }

  /** Opens what the chosen line has to open: its folded lines, or its log; otherwise goes to the next hit (1), or the one before (-1). */
  enter(direction) {
    const item = this.cursor();
    const folded = item?.tail || item?.folded;
    if (item && !folded && !this.stream) this.dispatchEvent(new CustomEvent("visit", { bubbles: true, detail: this.list.address(item) }));
    else if (!folded && this.search.find) this.search.step(direction);
    else if (item?.hidden) this.list.unfold(item);
  }

  /** Goes to *row* of merged logs, whose place is *place*, and marks it. */
  async reach({ row: [k, offset], place }) {
    const { list } = this;
    const { lines } = list;
    const mark = () => {
      lines.unfold(offset, k);
      const at = lines.find(offset, k);
      const item = lines.view()[at];
      if (item && list.current !== key(item.row)) this.choose(item);
      list.seeks = true;
      list.reveal(at);
    };
    if (!lines.rows.some((row) => row[0] === k && row[1] === offset)) {
      const going = this.go(place, 0);
      const { stay } = this;
      await going;
      if (stay.signal.aborted) return;
      mark(); // before the rows are drawn, and keys act on the place
      const { current } = list;
      await this.more(); // the lines above it
      if (stay.signal.aborted || list.current !== current) return; // the visitor has gone on meanwhile
    }
    mark();
  }

  /** Shows *hit*, in merged logs among the lines of all of them if it is in one of them. */
  async meets(hit) {
    const { source } = this;
    const row = [this.stream ? -1 : source.streams.findIndex(({ site, log }) => site === hit.site && log === hit.log), hit.offset];
    if (row[0] < 0 || !source.has(...row)) return this.show(hit);
    await this.reach({ row, place: { row, ...(Number.isFinite(hit.key) && { near: Math.max(0, hit.key) }), streams: source.streams } });
  }

  move(step, more = false) {
    const { list } = this;
    const view = list.lines.view();
    const seen = list.seen();
    if (!seen) return;
    const at = list.current === null ? -1 : list.indexOf(list.current);
    let index = at < 0 ? (step > 0 ? seen.before : view.length - 1 - seen.behind) : at + step;
    if (more && this.anchor) {
      while (view[index] && view[index].row[0] !== this.anchor[0]) index += step; // a mark stays within one log
      if (!view[index]) return;
    }
    const { lines } = list;
    if ((index >= view.length && !this.source.ends(lines)) || (index < 0 && !this.source.begins(lines))) {
      this.stay.held.push(() => this.move(step, more)); // until the rows there have come
      return;
    }
    index = Math.max(0, Math.min(view.length - 1, index));
    if (list.current !== key(view[index].row)) this.choose(view[index], more);
    list.reveal(index, null);
    list.scrollIntoView({ block: "nearest" });
  }

  /** Shows *hit*, of this log or another. */
  show({ site, log, offset, end }) {
    const here = this.stream && site === this.stream.site && log === this.stream.log;
    if (!here || !this.source.has(offset)) {
      return (!here && this.wanted.side?.shows({ site, log, offset, end })) || this.dispatchEvent(new CustomEvent("visit", { bubbles: true, detail: `${path(this.run, site, log)}${fragment([offset, end], this.search.find)}` }));
    }
    const { list } = this;
    list.seeks = true;
    this.mark(0, offset, Math.max(end, offset + 1), true);
    list.lines.unfold(offset);
    const held = this.stay.settled && offset >= list.lines.from && offset < list.lines.to;
    const index = held ? list.lines.find(offset) : -1;
    say(this.told, index < 0 ? "" : list.lines.view()[index].row[3].slice(0, 300));
    if (index < 0) return this.go({ at: offset });
    if (list.follow) list.turn(false);
    list.current = key(list.lines.view()[index].row);
    list.scrollIntoView({ block: "nearest" });
    const seen = list.seen();
    list.reveal(index, index > seen.before + 1 && index < list.lines.view().length - seen.behind - 2 ? null : 0.35);
  }

  /** Copies the marked lines, however many, with the notes between them; lines that the page does not hold are fetched. */
  copied(event) {
    const { list } = this;
    if (!list.marked || !this.leads || !getSelection().isCollapsed || event.target.closest?.("input, dialog")) return;
    const [k, from, to] = list.marked;
    const rows = list.lines.rows.filter((row) => row[0] === k && row[1] < to && (row[4] & NOTE ? row[1] > from : row[2] > from || row[1] >= from));
    event.preventDefault();
    if (!this.stream || (from >= list.lines.from && to <= list.lines.to)) {
      event.clipboardData.setData("text/plain", rows.map((row) => row[3]).join("\n"));
      this.tellCopied(rows);
    } else this.fetched(from, to);
  }

  /** Says how many lines were copied, and how many were cut. *all*: no marked line is missing from the copy. */
  tellCopied(copied, all = true) {
    const rows = copied.filter((row) => !(row[4] & NOTE));
    const cut = rows.filter((row) => row[4] & CUT).length;
    const lines = `${several(rows.length, "line")} copied`;
    const how = `${this.list.marked ? "" : "mark them and "}press c to download all of ${rows.length === 1 ? "it" : "them"}`;
    if (!all) say(this.told, `${lines}, and more are marked: ${how}.`);
    else if (cut) say(this.told, `${lines}, ${rows.length === 1 ? "which was" : `${count(cut)} of them`} cut at its end: ${how}.`);
    else say(this.told, `${lines}.`);
  }

  async fetched(from, to) {
    const rows = [];
    let at = from;
    for (let size = 0; at < to && size < COPIED; ) {
      const answer = await this.source.window({ at, rows: 1000 });
      for (const row of answer.rows) {
        if (row[1] >= to || (row[4] & NOTE && row[1] <= from)) continue;
        rows.push(row);
        size += row[3].length;
      }
      if (answer.to <= at) break;
      at = answer.to;
    }
    await navigator.clipboard.writeText(rows.map((row) => row[3]).join("\n"));
    this.tellCopied(rows, at >= to);
  }
}
