/** Applies a pattern in a Worker that is terminated after two seconds: an endless pattern hurts its author alone. */

const PATIENCE = 2000; // ms

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
  return { source, flags };
}

export class Endless extends Error {}

export class Matcher {
  constructor({ source, flags }) {
    this.source = source;
    this.flags = flags;
    this.waiting = new Map();
    this.asked = 0;
  }

  /** The matches in *texts*: `[[name, [[begin, end], ...]], ...]`, without texts that do not match. Throws Endless. */
  find(texts) {
    if (this.ended) return Promise.reject(new Endless());
    if (!this.worker) {
      this.worker = new Worker(trusted ? trusted.createScriptURL(WORKER) : WORKER);
      this.worker.onmessage = ({ data }) => {
        const { done, timer } = this.waiting.get(data.id) ?? {};
        clearTimeout(timer);
        this.waiting.delete(data.id);
        done?.(data.found);
      };
    }
    const id = (this.asked += 1);
    return new Promise((done, failed) => {
      const timer = setTimeout(() => this.end(), PATIENCE);
      this.waiting.set(id, { done, failed, timer });
      this.worker.postMessage({ id, pattern: this.source, flags: this.flags, texts });
    });
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
