/**
 * A row's text as nodes: text nodes, in spans with classes where the log has colours. Text of a log becomes nothing else.
 * A row that is not opened shows a screenful at most: a line of 64 MiB costs no more than any other.
 */

import { h } from "./dom.js";
import { message, parts } from "./fields.js";
import { BAR, CUT, ERROR, NOTE, REST, STDERR, STRIPPED, TRACE, WARNING, key, timeOf } from "./lines.js";
import { clock, count, moment } from "./words.js";

const CLIPPED = 1200; // UTF-16 units of a row that is not opened
const TAIL = 400; // UTF-16 units of the exception of a folded traceback
const OPENED = 65536; // UTF-16 units of an opened row
const MARKS = /\p{M}{9,}/gu; // a stack of combining marks that no script has: painting it takes seconds
const HIDDEN = /[\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c\ufeff\ud800-\udfff]/gu; // characters that turn the text's direction, and halves of surrogate pairs

const STEPS = [0, 51, 102, 153, 204, 255]; // of the colours 16 to 231, nearly as in terminals
const NAMED = ["#808080", "#d0342c", "#2c9a55", "#b58900", "#3a6fe0", "#b04fc0", "#1c98a8", "#9a9a9a",
  "#8a8a8a", "#ff5c52", "#4fc97c", "#e0b020", "#6a98ff", "#d27be0", "#3fc4d4", "#b8b8b8"]; // the colours 0 to 15

/** The colour *number* of the 256 of a terminal. */
function colour(number) {
  if (number < NAMED.length) return NAMED[number];
  if (number >= 232) return `rgb(${Array(3).fill(8 + 10 * (number - 232)).join(" ")})`;
  const at = number - NAMED.length;
  return `rgb(${STEPS[Math.floor(at / 36)]} ${STEPS[Math.floor(at / 6) % 6]} ${STEPS[at % 6]})`;
}

/** *text* with a sign for each character that would turn its direction: offsets in the text stay the same. */
export function legible(text) {
  return text.replace(HIDDEN, "\ufffd").replace(MARKS, (marks) => marks.slice(0, 8) + "\u00b7".repeat(marks.length - 8));
}

/** A span with the classes of *names*, as in `b u f1 x208`. */
function styled(names, text) {
  const span = h("span", {}, text);
  const wanted = names.split(" ");
  const inverse = wanted.includes("r");
  for (const name of wanted) {
    const found = /^([fgxy])(\d{1,3})$/.exec(name);
    if (!found) {
      if (/^[bdiusr]$/.test(name)) span.classList.add(`sgr-${name}`);
      continue;
    }
    const ground = "gy".includes(found[1]) !== inverse;
    span.classList.add(ground ? "on" : "in");
    span.style.setProperty(ground ? "--ground-of" : "--ink-of", colour(Math.min(Number(found[2]), 255)));
  }
  return span;
}

/** The nodes of *text*, with colours at *spans*. */
export function painted(text, spans, most = CLIPPED) {
  const shown = legible(text.length > most ? text.slice(0, most) : text);
  if (!spans || !spans.length) return [document.createTextNode(shown)];
  const nodes = [];
  let at = 0;
  for (const [begin, length, names] of spans) {
    if (begin >= shown.length) break;
    if (begin > at) nodes.push(document.createTextNode(shown.slice(at, begin)));
    nodes.push(styled(names, shown.slice(Math.max(at, begin), begin + length)));
    at = Math.max(at, begin + length);
  }
  if (at < shown.length) nodes.push(document.createTextNode(shown.slice(at)));
  return nodes;
}

/** About how many characters the row of *item* shows. */
export function extent({ row, tail }, open, raw) {
  if (row[4] & BAR) return 1;
  const span = !open && !raw && message(row);
  return Math.min(span ? span[1] + 40 : row[3].length, open ? OPENED : CLIPPED) + (tail ? Math.min(tail[3].length, TAIL) + 20 : 0);
}

/** The hue of the site with *number* in its run: a golden section from that of the site before it, and far from the next ones'. */
export function hue(number) {
  return Math.round(230 + 137.508 * number) % 360;
}

/** Matches what a row shows beside its text. */
export const APART = ".brief, .fold, .more, .meter";

/** Sets the text of *element*, in its text node if it has one: a new node costs a browser much more. */
function write(element, text) {
  const only = element.firstChild;
  if (only?.nodeType !== 3 || only !== element.lastChild) element.textContent = text;
  else if (only.data !== text) only.data = text;
}

/** An empty row, which `fill` fills again and again. */
export function blank() {
  const parts = ["number", "time", "tag", "text"].map((name) => h("span", { class: name }));
  const node = h("div", { class: "row" }, ...parts);
  [node.number, node.time, node.tag, node.text] = parts;
  return node;
}

/**
 * Shows *item* of a view in *node*.
 * @param {{about: boolean, names: string[], titles: string[], colours: number[], address: () => string, open: boolean, raw: boolean, dated: boolean}} how
 */
export function fill(node, item, how) {
  const { row, number, hidden, tail } = item;
  const [k, offset, , text, flags, , spans] = row;
  const time = timeOf(row);
  node.key = key(row);
  node.row = row;
  node.item = item;
  Object.assign(node, { open: how.open, raw: how.raw, dated: how.dated, about: how.about, said: null });
  const level = flags & ERROR ? "error" : flags & WARNING ? "warning" : "";
  node.className = ["row", level, flags & NOTE && "note", flags & BAR && "bar", flags & STDERR && "stderr", flags & TRACE && "trace", flags & REST && "rest",
    tail && "folded", hidden && "folds", how.open && "open"].filter(Boolean).join(" ");
  write(node.number, flags & NOTE ? "" : number === null || number === undefined ? "" : `${how.about ? "\u2248" : ""}${count(number)}`);
  const at = time ? `${how.dated ? moment(time).slice(5, 10) : ""} ${clock(time, true)}` : "";
  write(node.time, at);
  if (how.names.length > 1) {
    node.link ??= node.tag.appendChild(h("a", { tabindex: "-1" })); // Enter opens the chosen line's log
    write(node.link, how.names[k] ?? "");
    node.link.href = how.address();
    node.tag.title = how.titles[k] ?? "";
    node.tag.style.setProperty("--hue", how.colours[k]);
  } else write(node.tag, "");
  node.dataset.offset = String(offset);
  const span = !how.raw && !tail && message(row);
  if (span) {
    node.text.replaceChildren(...parts(text, span, { open: how.open, time: at, most: how.open ? OPENED : CLIPPED, legible }));
    node.said = [...node.text.childNodes].filter((one) => !one.matches?.(APART)).map((one) => one.textContent).join("");
    return;
  }
  if (!spans?.length && !hidden && !tail && !(flags & (CUT | STRIPPED)) && text.length <= CLIPPED) return write(node.text, legible(text));
  const nodes = painted(text, spans, how.open ? OPENED : CLIPPED);
  if (hidden) nodes.unshift(h("span", { class: "fold", "aria-hidden": "true" }, tail || item.folded ? "\u25b8 " : "\u25be "));
  if (tail) nodes.push(h("span", { class: "more" }, ` \u2026 ${count(hidden)} lines \u2026 `), ...painted(tail[3], tail[6], TAIL));
  if (!how.open && text.length > CLIPPED) nodes.push(h("span", { class: "more" }, ` \u2026 ${count(text.length - CLIPPED)} more characters`));
  if (flags & STRIPPED) nodes.push(h("abbr", { class: "more", title: "Control characters were removed here: the download has them" }, "ctrl"));
  if (flags & CUT || (how.open && text.length > OPENED)) nodes.push(h("span", { class: "more" }, " \u2026 cut: download the log for all of it"));
  node.text.replaceChildren(...nodes);
}

/** A small bar, filled to *done* percent. */
export function meter(done, named = null) {
  const inner = h("span");
  inner.style.setProperty("inline-size", `${done}%`);
  const properties = named === null ? { "aria-hidden": "true" } : { role: "progressbar", "aria-label": named, "aria-valuenow": String(Math.round(done)), "aria-valuemin": "0", "aria-valuemax": "100" };
  return h("span", { class: "meter", ...properties }, inner);
}
