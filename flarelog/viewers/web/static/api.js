/**
 * The page's requests to its server. A 401 is no error: the user logs in, and the request is sent again, so that a page
 * continues where it was when its session ended.
 */

import { frame } from "./dom.js";

const SLICE = 10; // ms of work between two frames
const PATIENCE = 1000; // ms
/** Who does not answer: a request may also wait in the browser, whose other tabs wait for the receiver. */
export const EITHER = "flarelog web or its receiver";

export class Refused extends Error {
  /**
   * @param {number} status 0: no answer
   * @param {boolean} run whether there may be such a run
   */
  constructor(status, message, run = true) {
    super(message);
    this.status = status;
    this.run = run;
  }
}

/** Set by the login: shows it, and resolves when the user has logged in. */
export const session = { ask: () => Promise.reject(new Refused(401, "Log in.")) };

/** The path of the page of a run, or of one log of it. */
export function path(run, site, log) {
  const parts = site === undefined ? [run] : [run, site, ...log.split("/")];
  return `/run/${parts.map(encodeURIComponent).join("/")}`;
}

/** The address of several logs of a run, each in a parameter *name*. */
export function together(run, name, streams, ...more) {
  const names = streams.map(({ site, log }) => `${name}=${[site, ...log.split("/")].map(encodeURIComponent).join("/")}`);
  return `${path(run)}?${[...more, ...names].join("&")}`;
}

export function query(values) {
  const text = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) if (value !== undefined && value !== null) text.append(name, value);
  return text.toString();
}

async function sent(where, body, signal, headers) {
  const asked = body === undefined ? { signal, headers } : {
    signal,
    method: "POST",
    headers: { "Content-Type": "application/json", ...headers },
    body: JSON.stringify(body),
  };
  try {
    return await fetch(where, { ...asked, cache: "no-store", credentials: "same-origin", redirect: "error" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "flarelog web does not answer");
  }
}

/** The result of *answer*; calls *late* if it has not come after a second. */
export async function waited(answer, late) {
  const timer = setTimeout(late, PATIENCE);
  try {
    return await answer;
  } finally {
    clearTimeout(timer);
  }
}

/** Whether flarelog web answers within PATIENCE a request for which it asks no receiver. */
export async function answers() {
  try {
    await sent("/static/icon.svg", undefined, AbortSignal.timeout(PATIENCE));
    return true;
  } catch {
    return false;
  }
}

/** The response to a request; after a 401 it waits for a login and asks again. *came* is called at each response. */
export async function answered(where, body, { signal, headers, login = true, came } = {}) {
  for (;;) {
    const response = await sent(where, body, signal, headers);
    came?.(response.ok);
    if (response.ok || response.status === 304) return response;
    if (response.status === 401 && login) {
      await session.ask();
      continue;
    }
    const said = await response.json().catch(() => ({})); // a proxy's page is no JSON
    throw new Refused(response.status, said.error ?? `flarelog web answered with status ${response.status}`, said.run);
  }
}

/** The JSON in *response*. */
export async function read(response) {
  try {
    return await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "the connection to flarelog web broke in the middle of an answer");
  }
}

export async function ask(where, body, options) {
  return read(await answered(where, body, options));
}

/**
 * The objects of an answer in NDJSON, as they come. An answer that is not read holds up the server. After SLICE of work,
 * the caller's included, a frame is drawn; waiting is no work. *came* is called at each piece, also at one
 * without an object.
 */
export async function* objects(where, body, options) {
  const response = await answered(where, body, options);
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  let worked = 0;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      options.came?.(true);
      const begun = performance.now();
      const parts = (rest + decoder.decode(value, { stream: true })).split("\n");
      rest = parts.pop();
      for (const part of parts) if (part) yield JSON.parse(part);
      worked += performance.now() - begun;
      if (worked > SLICE) {
        await frame();
        worked = 0;
      }
    }
  } catch (error) {
    if (error.name === "AbortError" || error instanceof Refused) throw error;
    throw new Refused(0, "the connection to flarelog web was lost");
  } finally {
    reader.cancel().catch(() => {});
  }
}
