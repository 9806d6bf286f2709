/** A range of time, in the parameters `from` and `to` of an address: the page shows the lines of that time alone. */

import { fragment, parsed } from "./address.js";
import { h } from "./dom.js";
import { clock, place, zone } from "./words.js";

const LAST = 253_402_300_799_999; // ms since 1970: the end of the year 9999; a browser has no date for much later times

/** The range in *parameters*, in milliseconds since 1970; null without one. *to* is null where it is to come. */
export function ranged(parameters) {
  const [from, to] = ["from", "to"].map((name) => Math.min(LAST, Math.floor(Number(parameters.get(name))) || 0));
  if (from <= 0 && to <= 0) return null;
  return { from: Math.max(0, from), to: to > 0 && to < Date.now() ? Math.max(to, from + 1) : null };
}

/** The address of the page with *range* and *time*; without a range the place is *time*, or where the present range begins. */
export function within(range, time) {
  const parameters = new URLSearchParams(location.search);
  const before = ranged(parameters);
  for (const name of ["from", "to", "time"]) parameters.delete(name);
  for (const [name, value] of Object.entries({ ...range, time: time ?? (range ? null : before?.from) })) if (value) parameters.append(name, Math.round(value));
  const query = String(parameters).replaceAll("%2F", "/");
  return `${location.pathname}${query && `?${query}`}${range ? fragment(null, parsed(location.hash).find, true) : location.hash}`; // a mark may lie out of the range
}

/** The range that *text* names, as in "14:00 to 14:32", by a clock that is *ahead* ms ahead; null for any other text. */
export function rangeOf(text, now, ahead = 0) {
  const [from, to, ...rest] = text.split(/ to |\u2013/).map((time) => place(time, now)?.time).map((time) => time && time - ahead);
  return from && to && !rest.length ? { from, to } : null;
}

/** What shows the range of the page, and leads to all times. */
export function chip({ from, to }, order) {
  const text = `${order === "arrival" ? "arrived " : ""}${to === null ? `from ${clock(from)} on` : `${clock(from)} to ${clock(to)}`}`;
  return h("a", { class: "button range", href: within(null), title: `Only these lines, in ${zone(from)}. Press to show all.`, "aria-label": `${text}: show all times` }, `${text} \u2715`);
}
