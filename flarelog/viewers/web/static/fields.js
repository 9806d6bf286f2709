/**
 * A line that is an object of JSON: its time, level and message come first, and its other fields where its row is opened.
 * The server says which part of the text is the message, and the level; the text itself stays as it is.
 */

import { h } from "./dom.js";

const FIELDS = 200; // fields that are shown each by itself
const CONTROL = /[\0-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]/g;

/** The span of the message of *row*; undefined where it is no object with a message. */
export function message(row) {
  return row[6]?.find(([, , names]) => names.startsWith("m "));
}

/** The text of *string*, a string of JSON without its quotes; *apart*: on several lines if it has several. */
function unquoted(string, apart) {
  try {
    string = JSON.parse(`"${string}"`);
  } catch {
    // it is shown as it is
  }
  return (apart ? string : string.replace(/\n/g, "\u23ce")).replace(CONTROL, "\ufffd");
}

/** The fields of the object *text*, as they stand in it: `[offset, field]`; fields beyond FIELDS are in the last one. */
export function fields(text) {
  const found = [];
  let [depth, begin] = [0, 1];
  const take = (end) => {
    const field = text.slice(begin, end);
    if (field.trim()) found.push([begin, field.trim()]);
    begin = end + 1;
  };
  for (const { 0: token, index } of text.matchAll(/"(?:[^"\\]|\\.)*(?:"|$)|[{}[\],]/g)) {
    if (token === "{" || token === "[") depth += 1;
    if (token === "}" || token === "]") depth -= 1;
    if ((token === "," && depth === 1 && found.length < FIELDS) || !depth) take(index);
    if (!depth) return found;
  }
  take(text.length);
  return found;
}

/**
 * What the row shows of the object *text* with *span*: its level and its message, of *most* characters, and where it is
 * *open* the other fields. *legible* makes a text safe to show: JSON can write any character.
 */
export function parts(text, [begin, length, names], { open, time, most, legible }) {
  const level = names.slice(2);
  const said = (string, apart) => legible(unquoted(string, apart));
  const nodes = [h("span", { class: `brief ${level}`, "data-time": time.trim() }, level.toUpperCase().padEnd(8)), said(text.slice(begin, begin + length), open).slice(0, most)];
  if (!open) return [...nodes, h("span", { class: "more" }, " {\u2026}")];
  for (const [at, field] of fields(text)) {
    if (at <= begin && begin <= at + field.length) continue;
    const [, key, between, string] = /^("(?:[^"\\]|\\.)*")(\s*:\s*)(?:"((?:[^"\\]|\\.)*)"$)?/.exec(field) ?? [, "", ""];
    const rest = field.slice(key.length + between.length);
    nodes.push(h("span", { class: "field" }, key && h("button", { type: "button", title: "Show only lines with this field", value: field }, legible(key)), between, string === undefined ? legible(rest) : `"${said(string, true)}"`));
  }
  return [...nodes, h("button", { type: "button", class: "more" }, "raw (r)")];
}
