/**
 * A list of rows with about 80 of them in the document, however many there are: rows of one height, and one opened row
 * that wraps. The box scrolls as any box does, so that wheels, fingers and keys work as usual; the page puts rows before
 * and behind the present ones, and the rows on the screen stay in place.
 */

import { h } from "./dom.js";
import { CUT, Lines, NOTE, key } from "./lines.js";
import { blank, fill, legible } from "./paint.js";

const AROUND = 14; // rows above and below the screen that are in the document
const ABOVE = 4; // rows above it while the end is followed: scrolling up ends that
const PACE = [25, 150]; // ms between two drawings of live rows: at least, and at most
const REST = 3; // pause after a drawing of live rows, as a multiple of its time: other programs need the machine

export class LogList extends HTMLElement {
  constructor() {
    super();
    this.lines = new Lines();
    this.names = [""]; // of the logs, by k, as short as they are shown
    this.titles = [""]; // in full
    this.colours = [0];
    this.follow = false;
    this.current = null; // key of the row that is opened
    this.aim = null; // key of the row that was gone to, until it is opened
    this.seeks = false; // whether the first hit in the opened row is to be shown, as soon as it is highlighted
    this.marked = null; // [k, from, to]: bytes of a permalink
    this.nodes = new Map(); // by key
    this.extra = 0; // height of the opened row beyond one
    this.height = 20;
    this.expected = 0;
    this.rested = 0; // when live rows may be drawn again
    this.waiting = 0;
    this.hits = []; // the ranges that are highlighted
  }

  connectedCallback() {
    if (this.box) return;
    this.box = h("div", { class: "box" });
    this.append(this.box);
    this.tabIndex = 0;
    this.addEventListener("scroll", () => this.scrolled(), { passive: true });
    this.addEventListener("click", (event) => this.clicked(event));
    // A click with Shift marks more lines; a browser would select text from the last click on.
    this.addEventListener("mousedown", (event) => event.shiftKey && getSelection().isCollapsed && event.preventDefault());
    this.addEventListener("copy", (event) => this.copied(event));
    this.addEventListener("keydown", (event) => this.all(event));
    document.addEventListener("selectionchange", (this.onselection = () => this.selected()));
    this.sized = new ResizeObserver(() => {
      this.height = parseFloat(getComputedStyle(this).lineHeight) || 20;
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
      setTimeout(() => (this.rested = begun + Math.min(PACE[1], Math.max(PACE[0], (1 + REST) * (performance.now() - begun)))));
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

  top(index) {
    return index * this.height + (this.opened >= 0 && index > this.opened ? this.extra : 0);
  }

  /** The index of the row at *y*. */
  at(y) {
    if (this.opened >= 0 && y > this.opened * this.height) {
      const past = y - this.opened * this.height;
      return past < this.height + this.extra ? this.opened : Math.floor((y - this.extra) / this.height);
    }
    return Math.max(0, Math.floor(y / this.height));
  }

  get whole() {
    return this.top(this.lines.view().length) + (this.opened === this.lines.view().length - 1 && this.opened >= 0 ? this.extra : 0);
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

  /** Takes note of the opened row, and gives the box the height of all rows. */
  size() {
    this.opened = this.current === null ? -1 : this.indexOf(this.current);
    if (this.opened < 0) this.extra = 0;
    this.box.style.blockSize = `${this.whole}px`;
  }

  render() {
    const view = this.lines.view();
    this.size();
    if (this.follow) this.scroll(this.whole);
    const first = Math.max(0, this.at(this.scrollTop) - (this.follow ? ABOVE : AROUND));
    const last = Math.min(view.length, this.at(this.scrollTop + this.clientHeight) + AROUND + 1);
    const wanted = [];
    for (let index = first; index < last; index += 1) wanted.push(index);
    this.pinned(first, last, wanted);
    this.place(view, wanted);
    this.measure();
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
    if (node.row !== item.row || node.open !== open || before?.tail !== item.tail || before?.hidden !== item.hidden || before?.number !== item.number || node.about !== this.lines.about) {
      fill(node, item, { about: this.lines.about, names: this.names, titles: this.titles, colours: this.colours, open });
      node.about = this.lines.about;
    }
    const y = this.top(index);
    if (node.y !== y) node.style.transform = `translateY(${(node.y = y)}px)`;
    const marked = this.marked;
    const [k, offset, end, , flags] = item.row;
    node.classList.toggle("marked", marked !== null && k === marked[0] && !(flags & NOTE) && offset < marked[2] && (end > marked[1] || offset >= marked[1]));
    if (open) node.setAttribute("aria-current", "true");
    else node.removeAttribute("aria-current");
  }

  /** The opened row wraps: its extra height moves the rows below it. A row that was gone to is shown as far as it fits. */
  measure() {
    const node = this.opened >= 0 ? this.nodes.get(this.current) : null;
    if (!node) return;
    const extra = Math.max(0, node.offsetHeight - this.height);
    const grown = Math.abs(extra - this.extra) >= 0.5;
    if (grown) this.extra = extra;
    if (this.aim === this.current) {
      this.aim = null;
      const top = this.top(this.opened);
      const below = top + this.height + extra - this.scrollTop - this.clientHeight;
      this.box.style.blockSize = `${this.whole}px`;
      if (below > 0) this.scroll(Math.min(top, this.scrollTop + below));
    }
    if (grown) this.draw();
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
    const sign = event.target.closest(".fold, .more"); // a sign is no text: a click on it keeps a selection
    if (!node || (!sign && !getSelection().isCollapsed)) return;
    if (node.item.hidden && (sign || node.item.tail)) this.unfold(node.item);
    this.dispatchEvent(new CustomEvent("choose", { detail: { item: node.item, more: event.shiftKey } }));
  }

  unfold(item) {
    const name = key(item.row);
    if (!this.lines.opened.delete(name)) this.lines.opened.add(name);
    this.lines.changed();
    this.draw();
  }

  /** Puts *rows* before the present ones, and keeps the screen as it is. */
  prepend(rows, how) {
    const before = this.lines.view().length;
    this.lines.prepend(rows, how);
    this.moved(this.lines.view().length - before);
  }

  /** Scrolls by *count* rows, which were put before the screen; the drawn rows move along, so that a click hits the row it aims at. */
  moved(count) {
    this.size();
    for (const node of this.nodes.values()) node.style.transform = `translateY(${(node.y += count * this.height)}px)`;
    this.scroll(this.scrollTop + count * this.height);
    this.draw();
  }

  /** Shows the item at *index*, *share* of the screen from its top. */
  reveal(index, share = 0.35) {
    this.size();
    const aim = this.lines.view()[index];
    this.aim = aim ? key(aim.row) : null;
    const y = this.top(index);
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
    const ends = inside ? [place(selection.anchorNode, selection.anchorOffset), place(selection.focusNode, selection.focusOffset)] : [];
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
    texts[0] = texts[0].slice(head.at);
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
        const range = within(node, begin, end);
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
    return [...this.nodes].map(([name, node]) => [name, legible(node.row[3].slice(0, node.open ? 65536 : 1200))]);
  }
}

/** The row of a place in a selection, and the offset in its text. */
function place(node, offset) {
  const row = (node.nodeType === 1 ? node : node.parentElement)?.closest(".row");
  if (!row) return null;
  const text = row.text;
  if (!text.contains(node)) return { key: row.key, at: text.compareDocumentPosition(node) & Node.DOCUMENT_POSITION_PRECEDING ? 0 : row.row[3].length };
  const range = document.createRange();
  range.setStart(text, 0);
  range.setEnd(node, offset);
  return { key: row.key, at: range.toString().length };
}

/** The range of *begin* to *end* in the text of *row*. */
function within(row, begin, end) {
  const walker = document.createTreeWalker(row.text, NodeFilter.SHOW_TEXT, (node) =>
    node.parentElement.closest(".fold, .more, .meter") ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_ACCEPT,
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
