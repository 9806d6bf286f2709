/**
 * The live end of logs: one stream a tab, from the offsets that the page holds. A broken stream resumes at the bytes that
 * the page has; a tab that is hidden for half a minute closes its stream, and resumes it when it is visible. The server
 * sends an empty line every 2 s if it has nothing else to send: without it the server stands still.
 */

import { EITHER, objects } from "./api.js";

const ASIDE = 30_000; // ms that a hidden tab keeps its stream
const SILENT = 6000; // ms without a byte after which the page says so
const UNASKED = 15_000; // ms for the first byte: the server asks the receiver, whose own timeout is shorter
const ASLEEP = 1000; // ms by which a timer is late if the page was busy, or the machine asleep
const FINAL = [400, 401, 403, 410, 413]; // statuses that another try does not change; a log that is not found may come back
const WAITS = [200, 400, 800, 1500]; // ms before each retry

export class Tail {
  /**
   * @param {{run: string, site: string, log: string, from: number}[]} streams
   * @param {{streams(list): void, rows(list): void, bars(k, list, still): void, at(list): void, lost(sentence: string|null): void, done(): void}} listener
   */
  constructor(streams, order, listener, { hidden = ASIDE } = {}) {
    this.streams = streams.map((stream) => ({ ...stream }));
    this.order = order;
    this.listener = listener;
    this.hidden = hidden;
    this.why = null; // why no rows come
    this.silence = 0; // the timer of `expect`
    this.silent = false; // whether the server is said not to answer
    this.over = new AbortController();
    this.seen = () => this.looked();
    this.left = () => this.rest();
    document.addEventListener("visibilitychange", this.seen);
    addEventListener("pagehide", this.left); // the browser keeps a page that was left, and its open streams with it
    addEventListener("pageshow", this.seen);
    this.running = this.run();
  }

  stop() {
    this.stopped = true;
    clearTimeout(this.timer);
    clearTimeout(this.silence);
    this.over.abort();
    this.waking?.();
    document.removeEventListener("visibilitychange", this.seen);
    removeEventListener("pagehide", this.left);
    removeEventListener("pageshow", this.seen);
  }

  /** Closes the stream until the tab is visible again. */
  rest() {
    this.resting = true;
    clearTimeout(this.silence);
    this.over.abort();
  }

  looked() {
    clearTimeout(this.timer);
    if (document.visibilityState === "hidden") {
      this.timer = setTimeout(() => this.rest(), this.hidden);
    } else if (this.resting) {
      this.resting = false;
      this.waking?.();
    } else if (this.silence) this.expect(); // the timers of a hidden tab are late
  }

  /** Shows *sentence*, why no rows come; null: they come. */
  tell(sentence) {
    this.why = sentence;
    this.listener.lost(sentence);
  }

  /** Something came. *well*: and more is to come; without that the answer was a refusal. */
  came(well) {
    clearTimeout(this.silence);
    this.silence = 0;
    if (this.stopped) return;
    if (this.silent) this.listener.lost(this.why);
    this.silent = false;
    if (well) this.expect();
  }

  /** Says that *who* does not answer if nothing comes for *ms* while the tab is visible. */
  expect(ms = SILENT, who = "flarelog web") {
    clearTimeout(this.silence);
    if (this.stopped || this.resting) return;
    const due = performance.now() + ms;
    this.silence = setTimeout(() => {
      if (performance.now() - due > ASLEEP) return this.expect(SILENT, who); // what came meanwhile may still wait to be read
      if (document.visibilityState === "hidden" || this.silent) return;
      this.silent = true;
      this.listener.lost(`${who} does not answer; trying again`);
    }, ms);
  }

  async run() {
    let misses = 0;
    while (!this.stopped) {
      if (this.resting) {
        await this.pause();
        continue;
      }
      this.over = new AbortController();
      try {
        const over = await this.read(() => (misses = 0));
        if (this.stopped) return;
        if (over) return this.listener.done();
        misses += 1;
      } catch (error) {
        if (this.stopped || this.resting) continue;
        if (FINAL.includes(error.status)) {
          this.refused = true;
          this.tell(`${error.message}. Reload the page to try again.`);
          return;
        }
        misses += 1;
        // A stream that was closed a moment ago still counts: the first few refusals are not shown.
        if (error.status !== 429 || misses > 3) this.tell(`${error.message}; trying again`);
      } finally {
        clearTimeout(this.silence);
        this.silence = 0;
        this.silent = false;
      }
      await this.pause(WAITS[Math.min(misses, WAITS.length) - 1] ?? WAITS[0]);
    }
  }

  /** Reads the stream to its end. Returns whether all logs have ended. */
  async read(heard) {
    const body = { streams: this.streams, order: this.order };
    let over = false;
    const open = new Set(this.streams.keys());
    this.expect(UNASKED, EITHER);
    for await (const said of objects("/api/tail", body, { signal: this.over.signal, came: (well) => this.came(well) })) {
      if (this.stopped) return false;
      if (said.streams) {
        heard();
        this.tell(null);
        this.listener.streams(said.streams);
        for (const stream of said.streams.slice(this.streams.length)) open.add(this.streams.push({ ...stream, from: stream.from ?? 0 }) - 1);
      }
      if (said.rows) this.listener.rows(said.rows);
      if (said.bars) this.listener.bars(said.k ?? said.bars[0]?.[0], said.bars, said.still);
      if (said.error) this.tell(said.error);
      if (said.at) {
        for (const [k, offset] of said.at) this.streams[k].from = offset;
        this.listener.at(said.at);
      }
      if (said.lost) this.tell(said.lost);
      if (said.back) this.tell(null);
      for (const k of said.done ?? []) {
        open.delete(k);
        this.listener.ended?.(k);
      }
      over = Boolean(said.done) && !open.size;
    }
    return over;
  }

  /** Resolves after *ms*, or when it is woken. */
  pause(ms) {
    return new Promise((done) => {
      this.waking = done;
      if (ms) setTimeout(done, ms);
    });
  }
}
