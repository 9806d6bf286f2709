/** Formats numbers, sizes and times for people. Pure: the caller tells the time. */

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

/** The name of a log for people, that of its file. *log* is its name in the store; the server adds *name* where that differs. */
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

/** The time of day of *ms* in UTC, to the millisecond or the second. */
export function clock(ms, exact = false) {
  return new Date(ms).toISOString().slice(11, exact ? 23 : 19);
}

/** The day and the time of *ms* in UTC, to the second. */
export function moment(ms) {
  return new Date(ms).toISOString().slice(0, 19).replace("T", " ");
}

/** A difference of clocks in milliseconds: "+12 ms", "−3.2 s", "+2 h 05". */
export function skew(ms) {
  const size = Math.abs(ms);
  if (size < 0.5) return "0 ms";
  return `${ms < 0 ? "\u2212" : "+"}${size < 1000 ? `${Math.round(size)} ms` : size < 100_000 ? `${(size / 1000).toFixed(1)} s` : lasting(size)}`;
}

/** Parses a place to go to: a line, `@OFFSET`, `50%`, a time; null for any other text. */
export function place(text, now) {
  const wanted = text.trim();
  let found;
  if ((found = /^(\d+(?:\.\d+)?)\s*%$/.exec(wanted))) return { share: Number(found[1]) / 100 };
  if ((found = /^(@?)\s*([\d,_]+)$/.exec(wanted))) {
    const number = Number(found[2].replace(/[,_]/g, ""));
    if (!Number.isSafeInteger(number)) return null;
    return found[1] ? { at: number } : number ? { line: number } : null;
  }
  if ((found = /^(\d{1,2}):(\d{2})(?::(\d{2}(?:\.\d+)?))?$/.exec(wanted))) {
    const day = new Date(now).toISOString().slice(0, 11);
    const time = Date.parse(`${day}${found[1].padStart(2, "0")}:${found[2]}:${found[3] ?? "00"}Z`);
    return Number.isNaN(time) ? null : { time };
  }
  const day = /^(\d{4}-\d\d-\d\d)(?:[T ]\d\d:\d\d|$)/.exec(wanted); // a browser takes nearly any text for a time
  const noon = day && Date.parse(`${day[1]}T12:00Z`);
  if (!noon || new Date(noon).toISOString().slice(0, 10) !== day[1]) return null; // it takes 30 February for 2 March
  const time = Date.parse(/Z|[+-]\d\d:?\d\d$/.test(wanted) ? wanted : `${wanted.replace(" ", "T")}Z`);
  return Number.isNaN(time) ? null : { time };
}
