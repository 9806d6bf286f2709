/**
 * A list of rows with about 80 of them in the document, however many there are. The opened row wraps, and all rows do where
 * the visitor wants it: a row that wraps has its true height once it was drawn, and a likely one before. The box scrolls as
 * any box does, so that wheels, fingers and keys work as usual; the page puts rows before and behind the present ones, and
 * the rows on the screen stay in place, whatever heights are found.
 */

import { h } from "./dom.js";
import { CUT, Lines, NOTE, STRIP, key, timeOf } from "./lines.js";
import { APART, blank, extent, fill, legible } from "./paint.js";
import { moment } from "./words.js";

const SPARE = 14; // rows above and below the screen that are in the document
const ABOVE = 4; // rows above it while the end is followed: scrolling up ends that
const PACE = [25, 150]; // ms between two drawings of live rows: at least, and at most
const TRIES = 4; // drawings of one frame, until the heights of all drawn rows are known
const UNTIMED = 50; // rows without a time that may stand between two rows of one date
const END = "end"; // the aim behind the last row
const PAUSE = 3; // pause after a drawing of live rows, as a multiple of its time: other programs need the machine

export class LogList extends HTMLElement {
  constructor() {
    super();
    this.lines = new Lines();
    this.names = [""]; // of the logs, by k, as short as they are shown
    this.titles = [""]; // in full
    this.colours = [0];
    this.paths = []; // of the pages of merged logs
    this.follow = false;
    this.current = null; // key of the row that is opened
    this.aim = null; // key of the row that was gone to, or END, until it is drawn
    this.seeks = false; // whether the first hit in the opened row is to be shown, as soon as it is highlighted
    this.marked = null; // [k, from, to]: bytes of a permalink
    this.nodes = new Map(); // by key
    this.wraps = false;
    this.raw = false; // whether an object of JSON is shown as it is
    this.columns = 80; // characters that fit beside each other in a row
    this.age = 0; // of the heights of rows: those of another age are no longer true
    this.height = 20;
    this.expected = 0;
    this.rested = 0; // when live rows may be drawn again
    this.waiting = 0;
    this.hits = []; // the ranges that are highlighted
  }

  connectedCallback() {
    if (this.box) return;
    this.box = h("div", { class: "box" });
    this.probe = h("span", { class: "probe", "aria-hidden": "true" }, "0");
    this.append(this.box, this.probe);
    this.tabIndex = 0;
    this.addEventListener("scroll", () => this.scrolled(), { passive: true });
    this.addEventListener("click", (event) => this.clicked(event));
    // A click with Shift marks more lines; a browser would select text from the last click on.
    this.addEventListener("mousedown", (event) => event.shiftKey && getSelection().isCollapsed && event.preventDefault());
    this.addEventListener("copy", (event) => this.copied(event));
    this.addEventListener("keydown", (event) => this.all(event));
    document.addEventListener("selectionchange", (this.onselection = () => this.selected()));
    this.sized = new ResizeObserver(() => {
      this.keep(() => {
        this.height = parseFloat(getComputedStyle(this).lineHeight) || 20;
        this.age += 1;
        this.lines.room = Math.max(1, Math.floor(this.clientHeight / this.height / 4));
        this.lines.changed();
      });
      this.draw();
    });
    this.sized.observe(this);
  }

  disconnectedCallback() {
    this.sized.disconnect();
    this.highlight([]);
    clearTimeout(this.waiting);
    document.removeEventListener("selectionchange", this.onselection);
  }

  /** Draws with the next frame, once. */
  draw() {
    if (this.drawing) return;
    this.drawing = true;
    requestAnimationFrame(() => {
      this.drawing = false;
      if (!this.isConnected) return;
      const begun = performance.now();
      this.rested = begun + PACE[0];
      this.render();
      // Layout and paint follow in the same frame, and take the most of it.
      setTimeout(() => (this.rested = begun + Math.min(PACE[1], Math.max(PACE[0], (1 + PAUSE) * (performance.now() - begun)))));
    });
  }

  /** Draws live rows: at once, unless others were drawn a moment ago. */
  soon() {
    if (this.drawing || this.waiting) return;
    const left = this.rested - performance.now();
    if (left <= 0) return this.draw();
    this.waiting = setTimeout(() => {
      this.waiting = 0;
      this.draw();
    }, left);
  }

  // Positions of rows.

  /** Where each row begins, and the last one ends, in pixels. */
  tops() {
    const view = this.lines.view();
    const { current, age, height, of } = this;
    if (of?.view === view && of.current === current && of.age === age) return of.tops;
    const tops = new Float64Array(view.length + 1);
    this.opened = current === null ? -1 : this.indexOf(current);
    for (let at = 0; at < view.length; at += 1) tops[at + 1] = tops[at] + (this.wraps || at === this.opened ? this.tall(view[at], at === this.opened) : height);
    this.of = { view, current, age, tops };
    return tops;
  }

  /** The height of a row that wraps: as it was drawn, or as it may be. */
  tall(item, open) {
    const { fit } = item.row;
    if (fit?.age === this.age && fit.open === open && fit.tail === item.tail) return fit.height;
    return this.height * Math.max(1, Math.ceil(extent(item, open, this.raw) / this.columns));
  }

  top(index) {
    return this.tops()[index];
  }

  /** The index of the row at *y*. */
  at(y) {
    const tops = this.tops();
    let [low, high] = [0, tops.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (tops[middle] <= y) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  get whole() {
    return this.tops().at(-1);
  }

  /** The first and the last item on the screen. */
  seen() {
    const view = this.lines.view();
    if (!view.length) return null;
    const first = Math.min(view.length - 1, this.at(this.scrollTop));
    const last = Math.min(view.length - 1, this.at(this.scrollTop + this.clientHeight - 1));
    return { first: view[first], last: view[last], before: first, behind: view.length - 1 - last };
  }

  scroll(to) {
    this.scrollTop = to;
    this.expected = this.scrollTop;
  }

  /** Gives the box the height of all rows. */
  size() {
    this.box.style.blockSize = `${this.whole}px`;
  }

  render() {
    const view = this.lines.view();
    let ends = this.follow || this.aim === END;
    let [still, y] = [-1, 0]; // the row that stays where it is, and where that is
    for (let tries = 0; tries < TRIES; tries += 1) {
      this.size();
      if (ends) this.scroll(this.whole);
      else if (still >= 0) this.scroll(this.top(still) - y);
      const first = Math.max(0, this.at(this.scrollTop) - (this.follow ? ABOVE : SPARE));
      const last = Math.min(view.length, this.at(this.scrollTop + this.clientHeight) + SPARE + 1);
      if (still < 0 && view.length) {
        still = this.aim && !ends ? this.indexOf(this.aim) : -1;
        if (still < first || still >= last) still = Math.min(view.length - 1, this.at(this.scrollTop));
        y = this.top(still) - this.scrollTop;
        ends ||= !this.aim && this.scrollTop > 0 && this.scrollTop + this.clientHeight > this.whole - 1;
      }
      const wanted = [];
      for (let index = first; index < last; index += 1) wanted.push(index);
      this.pinned(first, last, wanted);
      this.place(view, wanted);
      if (!this.measure()) break;
    }
    this.fits();
    this.dispatchEvent(new CustomEvent("drawn"));
  }

  /** Keeps the rows at both ends of a selection in the document: without them the selection would end. */
  pinned(first, last, wanted) {
    if (!this.selection) return;
    for (const end of this.selection) {
      const index = this.indexOf(end.key);
      if (index >= 0 && index < first) wanted.unshift(index);
      else if (index >= last) wanted.push(index);
    }
    wanted.sort((a, b) => a - b);
  }

  place(view, wanted) {
    const items = new Map(wanted.map((index) => [key(view[index].row), index]));
    const free = [];
    for (const [name, node] of this.nodes) if (!items.has(name)) free.push(node);
    const unused = new Set(free);
    for (const node of free) this.nodes.delete(node.key);
    let at = this.box.firstChild;
    for (const [name, index] of items) {
      let node = this.nodes.get(name);
      if (node) while (unused.has(at)) at = at.nextSibling; // a row that stays is not moved: a moved row is laid out anew
      else {
        node = unused.has(at) ? at : (unused.values().next().value ?? blank());
        unused.delete(node);
      }
      if (node === at) at = at.nextSibling;
      else this.box.insertBefore(node, at);
      this.show(node, view[index], name, index);
      this.nodes.set(name, node);
    }
    for (const node of unused) node.remove();
  }

  show(node, item, name, index) {
    const open = index === this.opened;
    const before = node.item;
    const { raw, lines: { about } } = this;
    const dated = this.dated(index);
    if (node.row !== item.row || node.open !== open || before?.tail !== item.tail || before?.hidden !== item.hidden || before?.number !== item.number || node.about !== about || node.raw !== raw || node.dated !== dated) {
      fill(node, item, { about, names: this.names, titles: this.titles, colours: this.colours, address: () => this.address(item), open, raw, dated });
    }
    const y = this.top(index);
    if (node.y !== y) node.style.transform = `translateY(${(node.y = y)}px)`;
    const marked = this.marked;
    const [k, offset, end, , flags] = item.row;
    node.classList.toggle("marked", marked !== null && k === marked[0] && !(flags & NOTE) && offset < marked[2] && (end > marked[1] || offset >= marked[1]));
    if (open) node.setAttribute("aria-current", "true");
    else node.removeAttribute("aria-current");
  }

  /** Takes the heights of the drawn rows that wrap. Returns whether one is another than was thought. */
  measure() {
    let changed = false;
    if (this.wraps && this.nodes.size) {
      const { text } = this.nodes.values().next().value;
      const width = text.clientWidth;
      if (width !== this.width) {
        this.width = width; // also where a column beside the text came or grew
        this.columns = Math.max(8, Math.floor(width / this.probe.getBoundingClientRect().width));
        this.age += 1;
        changed = true;
      }
    }
    for (const node of this.nodes.values()) {
      if (!this.wraps && !node.open) continue;
      const height = Math.max(this.height, node.getBoundingClientRect().height);
      const { open, item: { row, tail } } = node;
      if (Math.abs(height - this.tall(node.item, open)) >= 0.5) changed = true;
      row.fit = { age: this.age, open, tail, height };
    }
    if (changed) this.of = null;
    return changed;
  }

  /** A row that was gone to, and is opened, is shown as far as it fits. */
  fits() {
    if (this.aim && this.aim === this.current && this.opened >= 0) {
      const top = this.top(this.opened);
      const last = this.marked ? this.lines.find(this.marked[2] - 1, this.marked[0]) : 0; // more lines may be marked, as of a traceback
      const below = this.top(Math.max(this.opened, last) + 1) - this.scrollTop - this.clientHeight;
      if (below > 0) {
        this.scroll(Math.min(top, this.scrollTop + below));
        this.draw();
      }
    }
    this.aim = null;
  }

  /** Whether the date of the row at *index* is another than that of the last row above it with a time. */
  dated(index) {
    const view = this.lines.view();
    const day = (item) => item && timeOf(item.row) && moment(timeOf(item.row)).slice(0, 10);
    const its = day(view[index]);
    return Boolean(its) && its !== day(view.slice(Math.max(0, index - UNTIMED), index).findLast(({ row }) => timeOf(row)));
  }

  indexOf(name) {
    const view = this.lines.view();
    return view.findIndex((item) => key(item.row) === name);
  }

  // Input.

  scrolled() {
    const moved = this.scrollTop - this.expected;
    if (Math.abs(moved) < 2) return; // the list scrolled by itself, and was drawn
    // The document's height counts, not the rows': rows that came since the last drawing do not end following.
    const bottom = this.scrollHeight - this.clientHeight - this.scrollTop < this.height;
    this.aim = null;
    if (moved < 0 && this.follow && !bottom) this.turn(false);
    else if (moved > 0 && !this.follow && bottom) this.dispatchEvent(new CustomEvent("bottom"));
    this.expected = this.scrollTop;
    this.draw();
  }

  turn(follow) {
    if (this.follow === follow) return;
    this.follow = follow;
    this.dispatchEvent(new CustomEvent("follow"));
    this.draw();
  }

  clicked(event) {
    const node = event.target.closest?.(".row");
    const button = event.target.closest?.("button");
    if (event.target.closest?.(".tag a")) return; // the log is opened
    if (button) return button.value ? this.dispatchEvent(new CustomEvent("field", { detail: button.value })) : this.bare();
    const sign = event.target.closest(".fold, .more"); // a sign is no text: a click on it keeps a selection
    if (!node || (!sign && !getSelection().isCollapsed)) return;
    if (node.key === STRIP) return this.unfold(node.item);
    if (node.item.hidden && (sign || node.item.tail)) this.unfold(node.item);
    this.dispatchEvent(new CustomEvent("choose", { detail: { item: node.item, more: event.shiftKey } }));
  }

  /** The address of the log of *item*, of merged logs, at its lines. */
  address({ row: [k, offset, end], tail }) {
    return `${this.paths[k]}#bytes=${offset}-${Math.max(tail?.[2] ?? end, offset + 1)}`;
  }

  unfold(item) {
    const name = key(item.row);
    if (!this.lines.opened.delete(name)) this.lines.opened.add(name);
    this.lines.changed();
    this.draw();
  }

  /**
   * Does *change*, which puts rows before the screen or gives rows other heights, and keeps the screen as it is; the drawn
   * rows move along, so that a click hits the row it aims at. Returns how many rows came before the screen. *name*: the key of
   * the row that stays in its place if it is on the screen; otherwise the first row stays.
   */
  keep(change, name) {
    const before = this.tops();
    const from = this.scrollTop; // a box that gets lower may scroll
    const seen = this.seen();
    const held = seen ? this.lines.view().slice(seen.before, this.at(from + this.clientHeight) + 1) : [];
    change();
    this.size();
    const places = new Map(this.lines.view().map(({ row }, at) => [row, at]));
    const kept = held.findIndex(({ row }) => key(row) === name && places.has(row));
    const at = kept < 0 ? held.findIndex(({ row }) => places.has(row)) : kept;
    if (kept >= 0) this.aim = name; // the heights of the rows are found when they are drawn
    const now = places.get(held[at]?.row);
    const by = at < 0 ? 0 : this.top(now) - before[seen.before + at];
    for (const node of this.nodes.values()) node.style.transform = `translateY(${(node.y += by)}px)`;
    if (by) this.scroll(from + by);
    return at < 0 ? 0 : now - seen.before - at;
  }

  /** Makes *change* to how all rows are shown; the opened row stays where it is, and who is at the end stays there. */
  restyle(change) {
    const ends = this.scrollTop + this.clientHeight > this.whole - this.height;
    this.aim = null;
    this.keep(() => {
      change();
      this.age += 1;
    }, this.current);
    if (ends && !this.aim) this.aim = END;
    this.draw();
  }

  /** Wraps all rows, or the opened one alone. */
  wrap(on) {
    this.restyle(() => this.classList.toggle("wraps", (this.wraps = on)));
  }

  /** Shows objects of JSON as they are, or their messages first. */
  bare() {
    this.restyle(() => (this.raw = !this.raw));
  }

  /** Shows the item at *index*, *share* of the screen from its top. */
  reveal(index, share = 0.35) {
    this.size();
    const aim = this.lines.view()[index];
    this.aim = aim ? key(aim.row) : END;
    const y = aim ? this.top(index) : this.whole;
    const [high, low] = [this.scrollTop, this.scrollTop + this.clientHeight - 2 * this.height];
    if (share === null && y >= high && y <= low) return this.draw();
    this.scroll(share === null ? (y < high ? y : y - this.clientHeight + 2 * this.height) : y - (this.clientHeight - this.height) * share);
    this.draw();
  }

  // Selection and copies of more than the screen.

  /** Ctrl+A selects the lines on the screen: the browser would select the page around them. */
  all(event) {
    const seen = this.seen();
    if (event.key !== "a" || !(event.ctrlKey || event.metaKey) || !seen) return;
    event.preventDefault();
    const [first, last] = [seen.first, seen.last].map(({ row }) => this.nodes.get(key(row)).text);
    getSelection().setBaseAndExtent(first, 0, last, last.childNodes.length);
  }

  selected() {
    const selection = getSelection();
    const inside = !selection.isCollapsed && this.contains(selection.anchorNode) && this.contains(selection.focusNode);
    const ends = inside ? [endpoint(selection.anchorNode, selection.anchorOffset), endpoint(selection.focusNode, selection.focusOffset)] : [];
    this.selection = ends.length && ends.every(Boolean) ? ends : null;
    if (this.selection && this.follow) this.turn(false);
  }

  copied(event) {
    if (!this.selection) return;
    const rows = this.lines.between(this.selection[0].key, this.selection[1].key);
    if (rows.length < 2) return;
    const down = key(rows[0]) === this.selection[0].key;
    const [head, foot] = down ? this.selection : [this.selection[1], this.selection[0]];
    const texts = rows.map((row) => row[3]);
    texts[texts.length - 1] = texts[texts.length - 1].slice(0, foot.at);
    texts[0] = texts[0].slice(head.at < Infinity ? head.at : 0);
    event.clipboardData.setData("text/plain", texts.join("\n"));
    event.preventDefault();
    if (rows.some((row) => row[4] & CUT)) this.dispatchEvent(new CustomEvent("short", { detail: rows }));
  }

  /** Highlights *ranges*, by key, with the browser's own highlights: no node changes. */
  highlight(ranges) {
    if (!globalThis.CSS?.highlights) return;
    const found = CSS.highlights.get("hit") ?? new Highlight(); // of all lists on the page
    for (const range of this.hits) found.delete(range);
    this.hits = [];
    for (const [name, places] of ranges) {
      const node = this.nodes.get(name);
      if (!node) continue;
      for (const [begin, end] of places) {
        const range = marked(node, begin, end);
        if (range) this.hits.push(range) && found.add(range);
        if (range && this.seeks && node.open && name === this.current) this.bring(range);
      }
    }
    CSS.highlights.set("hit", found);
  }

  /** Scrolls to *range*, of a row that is higher than the screen. */
  bring(range) {
    this.seeks = false;
    const [hit, list] = [range, this].map((one) => one.getBoundingClientRect());
    if (hit.top >= list.top && hit.bottom <= list.bottom) return;
    this.scroll(this.scrollTop + hit.top - list.top - 0.35 * this.clientHeight);
    this.draw();
  }

  /** The texts of the rows in the document, by key. */
  texts() {
    return [...this.nodes].map(([name, node]) => [name, node.said ?? legible(node.row[3].slice(0, node.open ? 65536 : 1200))]);
  }
}

/** The row of a place in a selection, and the offset in its text. */
function endpoint(node, offset) {
  const row = (node.nodeType === 1 ? node : node.parentElement)?.closest(".row");
  if (!row) return null;
  const text = row.text;
  if (row.said !== null) return { key: row.key, at: Infinity }; // it shows parts of its line
  if (!text.contains(node)) return { key: row.key, at: text.compareDocumentPosition(node) & Node.DOCUMENT_POSITION_PRECEDING ? 0 : row.row[3].length };
  const range = document.createRange();
  range.setStart(text, 0);
  range.setEnd(node, offset);
  return { key: row.key, at: range.toString().length };
}

/** The range of *begin* to *end* in the text of *row*. */
function marked(row, begin, end) {
  const walker = document.createTreeWalker(row.text, NodeFilter.SHOW_TEXT, (node) =>
    node.parentElement.closest(APART) ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_ACCEPT,
  );
  const range = document.createRange();
  let at = 0;
  let begun = false;
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const size = node.length;
    if (!begun && begin < at + size) {
      range.setStart(node, begin - at);
      begun = true;
    }
    if (begun && end <= at + size) {
      range.setEnd(node, end - at);
      return range;
    }
    at += size;
  }
  return null;
}

customElements.define("log-list", LogList);
