/**
 * Applies a pattern. A text is looked for at once. A regular expression runs in a Worker that is terminated two seconds
 * after it was given texts: an endless pattern hurts its author alone.
 */

import { matches } from "./matcher.js";

const LONGEST = 2000; // ms, from when the Worker runs: a browser may need longer to start it
const RESTART = 1000; // ms until a Worker that did not load is started again

const WORKER = new URL("matcher.js", import.meta.url).href;
const trusted = globalThis.trustedTypes?.createPolicy("flarelog", {
  createScriptURL: (url) => {
    if (url !== WORKER) throw new TypeError("flarelog starts one Worker alone");
    return url;
  },
});

/** The regular expression for the typed text; throws SyntaxError with the browser's sentence. */
export function pattern(text, { regex, ignore }) {
  const source = regex ? text : text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
  const flags = ignore ? "gui" : "gu";
  try {
    new RegExp(source, flags);
  } catch (error) {
    throw new SyntaxError(error.message.replace(/: \/[^]*\/[a-z]*: /, ": ")); // Chromium names flags that nobody typed
  }
  return { source, flags, regex };
}

export class Endless extends Error {
  constructor() {
    super("The pattern took more than 2 s and was ended.");
  }
}

export class Matcher {
  constructor(wanted) {
    this.wanted = wanted;
    this.waiting = new Map();
    this.asked = 0;
  }

  /** The matches in *texts*, see `matches`. Throws Endless. */
  async find(texts) {
    if (this.ended) throw new Endless();
    if (!this.wanted.regex) return matches(this.wanted, texts);
    if (!this.worker) this.start();
    const id = (this.asked += 1);
    return new Promise((done, failed) => {
      this.waiting.set(id, { done, failed, texts });
      if (this.ready) this.give(id);
    });
  }

  start() {
    this.worker = new Worker(trusted ? trusted.createScriptURL(WORKER) : WORKER, { type: "module" });
    this.worker.onerror = () => setTimeout(() => this.ended || this.ready || this.start(), RESTART);
    this.worker.onmessage = ({ data: { id, found } }) => {
      if (id === undefined) {
        this.ready = true;
        for (const one of this.waiting.keys()) this.give(one);
        return;
      }
      const { done, timer } = this.waiting.get(id);
      clearTimeout(timer);
      this.waiting.delete(id);
      done(found);
    };
  }

  give(id) {
    const one = this.waiting.get(id);
    one.timer = setTimeout(() => this.end(), LONGEST);
    this.worker.postMessage({ id, wanted: this.wanted, texts: one.texts });
  }

  end() {
    this.ended = true;
    this.worker?.terminate();
    for (const { failed, timer } of this.waiting.values()) {
      clearTimeout(timer);
      failed(new Endless());
    }
    this.waiting.clear();
  }
}
