/** The keys of the page, as in less and on GitHub, and the card that lists them. */

import { h } from "./dom.js";

export const KEYS = [
  ["/", "Search"],
  ["n  N", "Next hit, previous hit"],
  ["e  E", "Next error in this log or these merged logs, first error of all sites"],
  ["j  k", "Line below, line above; with Shift: mark more lines"],
  ["Space  PageUp", "A screen down, a screen up"],
  ["g  G", "Beginning, end"],
  [":", "Go to a line, @offset, share or time"],
  ["f", "Follow the end, or stop"],
  ["t", "Show or hide times"],
  ["w", "Wrap all lines, or not"],
  ["r", "Lines of JSON as they are, or not"],
  ["Enter", "Open or fold the traceback of the chosen line; of merged logs: its log; in a search: next hit"],
  ["c", "The link to the marked lines, and a command that shows them"],
  ["Esc", "Close, unmark"],
  ["\u2190  \u2192  \u2191  \u2193", "In the timeline: choose a time and a site; with Shift: mark a stretch; Enter: read its logs"],
  ["\u2190  \u2192", "Side by side: the log to the left, to the right"],
  ["?", "This card"],
];

/** Whether a key is typed into a field. The focus stays for a moment in a dialog that was closed. */
function typing(event) {
  const target = event.target;
  return target instanceof Element && !target.closest("dialog:not([open])") && target.closest("input, select, textarea, dialog[open]") !== null;
}

/**
 * Calls the function in *table* whose name is the key; a button keeps its own keys.
 * @returns {() => void} stops listening
 */
export function listen(table) {
  const heard = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || typing(event)) return;
    const act = table[event.key];
    if (!act || ([" ", "Enter"].includes(event.key) && event.target.closest?.("a, button, summary, [role=application]"))) return;
    event.preventDefault();
    act(event);
  };
  document.addEventListener("keydown", heard);
  return () => document.removeEventListener("keydown", heard);
}

/** A dialog with a heading and a button that closes it; shown at once, and gone when it is closed. */
export function card(title, ...content) {
  document.querySelector("dialog.card")?.close();
  const close = h("button", { type: "button", class: "quiet", "aria-label": "Close", on: { click: () => dialog.close() } }, "\u2715");
  const dialog = h("dialog", { class: "card", "aria-labelledby": "card-title" }, h("header", {}, h("h2", { id: "card-title" }, title), close), ...content);
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

export function help() {
  const rows = KEYS.map(([names, what]) => h("div", {}, h("dt", {}, ...names.split("  ").map((name) => h("kbd", {}, name))), h("dd", {}, what)));
  card("Keys", h("dl", { class: "keys" }, ...rows));
}
