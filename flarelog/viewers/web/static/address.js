// @ts-check
/**
 * The part of an address after "#": the marked bytes, the search and the settings. A browser sends it to no server, so that no access
 * log has what somebody searched for.
 */

import { SETTINGS, allowed, unusual } from "./settings.js";

const PARTS = ["bytes", "find", "in", "regex", "case", "only", "field", ...SETTINGS];

/** @typedef {{text: string, regex: boolean, exact: boolean, scope: string, only: boolean, field?: boolean}} Find a search; *field*: for objects of JSON with the field *text* */

/**
 * `{bytes, find}` of *hash*: the marked bytes as `[from, to]`, and a search; *strange*: it is none of the page's own.
 * @param {string} hash  @returns {{bytes: number[]|null, find: Find|null, strange: boolean}}
 */
export function parsed(hash) {
  const given = new URLSearchParams(hash === "#main" ? "" : hash.slice(1));
  const found = /^(\d+)-(\d+)$/.exec(given.get("bytes") ?? "")?.slice(1).map(Number);
  const bytes = found && found[0] < found[1] && Number.isSafeInteger(found[1]) ? found : null;
  const text = given.get("find")?.slice(0, 1000); // as many as the field takes
  const find = text ? { text, regex: given.has("regex"), exact: given.has("case"), scope: given.get("in") ?? "log", only: given.has("only"), ...(given.has("field") && { field: true }) } : null;
  const strange = [...given.keys()].some((name) => !PARTS.includes(name)) || (given.has("bytes") && !bytes) || SETTINGS.some((name) => given.has(name) && !allowed(name, given.get(name)));
  return strange ? { bytes: null, find: null, strange } : { bytes, find, strange };
}

/** The "#" part for *bytes*, a search and the settings; empty without any. *here*: for this page. @param {number[]|null} bytes  @param {Find|null} find */
export function fragment(bytes, find, here = false) {
  const parts = bytes ? [`bytes=${bytes[0]}-${bytes[1]}`] : [];
  if (find) {
    const { text, regex, exact, scope, only, field } = find;
    parts.push(String(new URLSearchParams({ find: text, ...(scope !== "log" && { in: scope }), ...(regex && { regex: "1" }), ...(exact && { case: "1" }), ...(only && { only: "1" }), ...(field && { field: "1" }) })));
  }
  if (unusual(here).length) parts.push(String(new URLSearchParams(unusual(here))));
  return parts.length ? `#${parts.join("&")}` : "";
}

/** Puts *bytes* and a search into the address of the page. */
export function put(bytes, find) {
  const address = `${location.pathname}${location.search}${fragment(bytes, find, true)}`;
  if (address !== `${location.pathname}${location.search}${location.hash}`) history.replaceState(history.state, "", address);
}
