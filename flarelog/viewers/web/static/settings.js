/**
 * How a visitor wants the page: each choice is in the address after "#", so that a colleague who opens it sees the same,
 * and the browser remembers it. An address wins over what was remembered, and is not remembered itself.
 */

const VALUES = { theme: ["auto", "light", "dark"], zone: ["utc", "local"], wrap: ["off", "on"], times: ["off", "on"], level: ["", "warning", "error"], curve: [""], sites: [""], standing: ["", "bad", "open"], chosen: [""] }; // the first is the default
const TEXTS = { curve: 100, sites: 200, chosen: 2000 }; // characters of texts: the name of a metric, a part of a name, and logs as SITE/LOG
const OF_RUN = ["sites", "standing", "chosen"]; // choices on the page of a run, which no link to another page needs
const PASSING = ["level", ...OF_RUN]; // choices for one page alone
const ANYWHERE = ["theme", "zone"];
const chosen = {};
const changes = new EventTarget();

export const SETTINGS = Object.keys(VALUES);

/** Whether *value* is a value of the setting *name*. */
export function allowed(name, value) {
  return VALUES[name].includes(value) || value?.length < TEXTS[name];
}

/** The value of the setting *name*. */
export function setting(name) {
  return chosen[name] ?? remembered(name) ?? usual(name);
}

function remembered(name) {
  try {
    const value = PASSING.includes(name) ? null : localStorage.getItem(name);
    return allowed(name, value) ? value : null;
  } catch {
    return null; // a browser may refuse to store anything
  }
}

function usual(name) {
  return name === "wrap" && matchMedia("(width < 600px)").matches ? "on" : VALUES[name][0];
}

/** Changes the setting *name*, here, in the address and in what the browser remembers. */
export function set(name, value) {
  chosen[name] = value;
  try {
    if (!PASSING.includes(name)) localStorage.setItem(name, value);
  } catch {
    // a browser may refuse to store anything
  }
  const given = new URLSearchParams(location.hash.slice(1));
  for (const each of SETTINGS) given.delete(each);
  for (const each of unusual(true)) given.set(...each);
  history.replaceState(history.state, "", `${location.pathname}${location.search}${String(given) && `#${given}`}`);
  changes.dispatchEvent(new Event(name));
}

/** The settings that are not at their defaults, by name, as far as the page has them. *here*: this page; otherwise a list of lines. */
export function unusual(here = false) {
  return SETTINGS.filter((name) => fits(name, here)).map((name) => [name, setting(name)]).filter(([name, value]) => value !== usual(name));
}

function fits(name, here) {
  const lines = !here || location.pathname.split("/").length > 3 || /[?&](merged|side)=/.test(location.search);
  const ofRun = name === "curve" || OF_RUN.includes(name);
  return ANYWHERE.includes(name) || (ofRun ? !lines && location.pathname !== "/" : lines);
}

/** Takes the settings of an address whose part after "#" is *hash*. */
export function adopt(hash) {
  const given = new URLSearchParams(hash.slice(1));
  for (const name of SETTINGS) {
    const before = setting(name);
    if (allowed(name, given.get(name))) chosen[name] = given.get(name);
    else if (PASSING.includes(name)) delete chosen[name];
    if (setting(name) !== before) changes.dispatchEvent(new Event(name));
  }
}

/** Calls *act* when the setting *name* has changed, until *signal*. */
export function heard(name, act, signal) {
  changes.addEventListener(name, act, { signal });
}
