/** The card that asks for a place in a list, and goes there. */

import { h, say } from "./dom.js";
import { card } from "./keys.js";
import { timeOf } from "./lines.js";
import { rangeOf, within } from "./range.js";
import { place, zone } from "./words.js";

export function goTo(page) {
  const input = h("input", { name: "place", "aria-label": "Place", autocomplete: "off", placeholder: page.stream ? "1200, @4096, 50%, 08:12:03" : "08:12:03" });
  const said = h("output", {});
  const form = h("form", {}, input, h("button", {}, "Go"), said);
  const dialog = card("Go to", h("p", {}, `${page.stream ? "A line, @ and an offset in bytes, a share in %, or a time" : page.arriving ? "A time of arrival" : "A time"} in ${zone(Date.now())}, or a range of time, as in 08:12 to 08:30.`), form);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const rows = [page.list.seen()?.first.row, ...page.list.lines.rows]; // a row without a time tells no day
    const row = rows.find((one) => one && timeOf(one));
    const now = row ? timeOf(row) : Date.now();
    const range = rangeOf(input.value, now, page.source.ahead);
    if (range && range.from > range.to) return say(said, "This range ends before it begins.");
    if (range) return page.dispatchEvent(new CustomEvent("visit", { bubbles: true, detail: within(range) }));
    const wanted = place(input.value, now);
    if (!wanted || (!page.stream && wanted.time === undefined)) return say(said, page.stream ? "This is no line, offset, share or time." : "Merged logs have times alone.");
    if (wanted.time !== undefined) wanted.time -= page.source.ahead ?? 0;
    dialog.close();
    page.clear();
    page.go(wanted, undefined, true);
  });
  input.focus();
}
