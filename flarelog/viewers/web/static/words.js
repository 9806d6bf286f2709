// @ts-check
/** Formats numbers, sizes and times for people. The caller gives the time, and the visitor chooses the zone. */

import { setting } from "./settings.js";

const THOUSANDS = /\B(?=(?:\d{3})+$)/g; // an Intl.NumberFormat takes longer to make than all else until the first paint
const UNITS = ["B", "kB", "MB", "GB", "TB", "PB"];

/** A whole number: "12,345". */
export function count(number) {
  return String(number).replace(THOUSANDS, ",");
}

/** One thing, or several: "1 gap", "2 gaps". */
export function several(number, one, more = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : more}`;
}

/** The name of a log for people, that of its file. *log* is its name in the store; the server adds *name* where that differs. @param {{log: string, name?: string}} log */
export function called({ log, name }) {
  try {
    return name ?? decodeURIComponent(log).replace(/\p{C}/gu, "\ufffd");
  } catch {
    return log;
  }
}

/** *text*, cut in the middle to *most* characters, because names differ at their ends. */
export function short(text, most) {
  const half = (most - 1) / 2;
  return text.length > most ? `${text.slice(0, Math.ceil(half))}\u2026${text.slice(-Math.floor(half))}` : text;
}

/** The parts that tell *names* of logs apart: without the directories and the endings that all names share. */
export function apart(names) {
  const reversed = (text) => [...text].reverse().join("");
  const head = common(names).lastIndexOf("/") + 1;
  const rests = names.map((name) => name.slice(head));
  const end = reversed(common(rests.map(reversed)));
  const at = end.search(/[/.]/);
  const parts = rests.map((rest) => (at < 0 ? rest : rest.slice(0, at - end.length)));
  return parts.every(Boolean) ? parts : rests;
}

/** The beginning that all *texts* share. */
function common([first, ...others]) {
  let at = 0;
  while (at < first.length && others.every((text) => text[at] === first[at])) at += 1;
  return first.slice(0, at);
}

/** *size* in bytes, on one line: "12.3 MB". */
export function bytes(size) {
  let unit = 0;
  while (size >= 1000 && unit < UNITS.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return `${unit && size < 99.95 ? size.toFixed(1) : Math.round(size)}\u00a0${UNITS[unit]}`;
}

/** A duration in milliseconds: "12 s", "3 min", "2 h 05". */
export function lasting(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 120) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 120) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${String(minutes % 60).padStart(2, "0")}`;
  return `${Math.floor(hours / 24)} d`;
}

/** Minutes by which the visitor's zone is ahead of UTC at *ms*; 0 where times are shown in UTC. */
function ahead(ms) {
  return setting("zone") === "utc" ? 0 : -new Date(ms).getTimezoneOffset();
}

/** *ms* as in `2026-11-20T08:00:00.000Z`, in the zone of the page. */
function stamp(ms) {
  return new Date(ms + 60_000 * ahead(ms)).toISOString();
}

/** The name of the page's zone at *ms*: "UTC", "UTC+5:30". */
export function zone(ms) {
  const minutes = Math.abs(ahead(ms));
  if (!minutes) return "UTC";
  return `UTC${ahead(ms) < 0 ? "\u2212" : "+"}${Math.floor(minutes / 60)}${minutes % 60 ? `:${String(minutes % 60).padStart(2, "0")}` : ""}`;
}

/** The time of day of *ms*, to the millisecond or the second. */
export function clock(ms, exact = false) {
  return stamp(ms).slice(11, exact ? 23 : 19);
}

/** The day and the time of *ms*, to the second. */
export function moment(ms) {
  return stamp(ms).slice(0, 19).replace("T", " ");
}

/** A difference of clocks in milliseconds: "+12 ms", "−3.2 s", "+2 h 05". */
export function skew(ms) {
  const size = Math.abs(ms);
  if (size < 0.5) return "0 ms";
  return `${ms < 0 ? "\u2212" : "+"}${size < 1000 ? `${Math.round(size)} ms` : size < 100_000 ? `${(size / 1000).toFixed(1)} s` : lasting(size)}`;
}

/** Parses a place to go to: a line, `@OFFSET`, `50%`, a time in the zone of the page; null for any other text. */
export function place(text, now) {
  const wanted = text.trim();
  const own = setting("zone") === "utc" ? "Z" : ""; // a time without a zone is the visitor's
  let found;
  if ((found = /^(\d+(?:\.\d+)?)\s*%$/.exec(wanted))) return { share: Number(found[1]) / 100 };
  if ((found = /^(@?)\s*([\d,_]+)$/.exec(wanted))) {
    const number = Number(found[2].replace(/[,_]/g, ""));
    if (!Number.isSafeInteger(number)) return null;
    return found[1] ? { at: number } : number ? { line: number } : null;
  }
  if ((found = /^(\d{1,2}):(\d{2})(?::(\d{2}(?:\.\d+)?))?$/.exec(wanted))) {
    const time = Date.parse(`${stamp(now).slice(0, 11)}${found[1].padStart(2, "0")}:${found[2]}:${found[3] ?? "00"}${own}`);
    return Number.isNaN(time) ? null : { time };
  }
  const day = /^(\d{4}-\d\d-\d\d)(?:[T ]\d\d:\d\d|$)/.exec(wanted); // a browser takes nearly any text for a time
  const noon = day && Date.parse(`${day[1]}T12:00Z`);
  if (!noon || new Date(noon).toISOString().slice(0, 10) !== day[1]) return null; // it takes 30 February for 2 March
  const time = Date.parse(/Z|[+-]\d\d:?\d\d$/.test(wanted) ? wanted : `${wanted.replace(" ", "T")}${wanted.includes(":") ? "" : "T00:00"}${own}`);
  return Number.isNaN(time) ? null : { time };
}
