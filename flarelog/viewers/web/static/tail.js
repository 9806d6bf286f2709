/**
 * The live end of logs: one stream a tab, from the offsets that the page holds. A broken stream resumes at the bytes that
 * the page has; a tab that is hidden for half a minute closes its stream, and resumes it when it is visible.
 */

import { Refused, objects } from "./api.js";

const HIDDEN = 30_000; // ms that a hidden tab keeps its stream
const WAITS = [200, 400, 800, 1500]; // ms before each retry

export class Tail {
  /**
   * @param {{run: string, site: string, log: string, from: number}[]} streams
   * @param {{streams(list): void, rows(list): void, bars(k, list): void, at(list): void, lost(sentence: string|null): void, done(): void}} listener
   */
  constructor(streams, order, listener, { hidden = HIDDEN } = {}) {
    this.streams = streams.map((stream) => ({ ...stream }));
    this.order = order;
    this.listener = listener;
    this.hidden = hidden;
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
    this.over.abort();
    this.waking?.();
    document.removeEventListener("visibilitychange", this.seen);
    removeEventListener("pagehide", this.left);
    removeEventListener("pageshow", this.seen);
  }

  /** Closes the stream until the tab is visible again. */
  rest() {
    this.resting = true;
    this.over.abort();
  }

  looked() {
    clearTimeout(this.timer);
    if (document.visibilityState === "hidden") {
      this.timer = setTimeout(() => this.rest(), this.hidden);
    } else if (this.resting) {
      this.resting = false;
      this.waking?.();
    }
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
        if (error instanceof Refused && error.status >= 400 && error.status < 500 && error.status !== 429) {
          this.refused = true;
          this.listener.lost(`${error.message}. Reload the page to try again.`);
          return;
        }
        misses += 1;
        // A stream that was closed a moment ago still counts: the first few refusals are not shown.
        if (error.status !== 429 || misses > 3) this.listener.lost(`${error.message}; trying again`);
      }
      await this.pause(WAITS[Math.min(misses, WAITS.length) - 1] ?? WAITS[0]);
    }
  }

  /** Reads the stream to its end. Returns whether all logs have ended. */
  async read(heard) {
    const body = { streams: this.streams, order: this.order };
    let over = false;
    const open = new Set(this.streams.keys());
    for await (const said of objects("/api/tail", body, { signal: this.over.signal })) {
      if (this.stopped) return false;
      if (said.streams) {
        heard();
        this.listener.lost(null);
        this.listener.streams(said.streams);
        for (const stream of said.streams.slice(this.streams.length)) open.add(this.streams.push({ ...stream, from: stream.from ?? 0 }) - 1);
      }
      if (said.rows) this.listener.rows(said.rows);
      if (said.bars) this.listener.bars(said.k ?? said.bars[0]?.[0], said.bars);
      if (said.error) this.listener.lost(said.error);
      if (said.at) {
        for (const [k, offset] of said.at) this.streams[k].from = offset;
        this.listener.at(said.at);
      }
      if (said.lost) this.listener.lost(said.lost);
      if (said.back) this.listener.lost(null);
      for (const k of said.done ?? []) open.delete(k);
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
