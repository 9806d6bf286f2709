/**
 * The page of one log, or of several merged logs: the list of rows, the map of the whole log, and the tools. The list holds
 * rows around one place. At the end a stream brings new rows; "follow" keeps the end on the screen.
 */

import { parsed } from "./address.js";
import { ask, query } from "./api.js";
import { Choosing } from "./choosing.js";
import { h, say } from "./dom.js";
import { goTo } from "./goto.js";
import { help, listen } from "./keys.js";
import { ERROR, NOTE, TRACE, WARNING, key, timeOf } from "./lines.js";
import "./list.js";
import { Endless } from "./matching.js";
import "./minimap.js";
import { link } from "./permalink.js";
import { chip } from "./range.js";
import { searchOf } from "./searchbar.js";
import { heard, set, setting } from "./settings.js";
import { Merged, OneLog } from "./source.js";
import { archive } from "./taking.js";
import { bytes, called, count, moment, several, zone } from "./words.js";

const KEEP = 500; // ms after a move until the place is kept: browsers allow few changes of the history
const LEVELS = { "": 0, warning: WARNING | ERROR | TRACE, error: ERROR | TRACE };

export class LogPage extends Choosing {
  /** @param {{run: string, stream?: {run: string, site: string, log: string}, merged?: object, hash: string, side?: object}} wanted *side*: the page of several lists, of which this is one */
  begin(wanted) {
    this.wanted = wanted;
    this.run = wanted.run;
    this.stream = wanted.stream ?? null;
    this.source = this.stream ? new OneLog(this.stream, wanted.range, Boolean(wanted.side)) : new Merged({ run: this.run, range: wanted.range, ...wanted.merged });
    this.troubles = new Map(); // by kind of request: why it fails
    this.fresh = 0; // new rows below the screen
    return this;
  }

  connectedCallback() {
    this.build();
    this.unkey = this.wanted.side ? () => {} : listen(this.keys());
    this.list.lines.merged = !this.stream;
    this.list.lines.timed = !this.stream && this.source.wanted.order !== "arrival";
    const { bytes: marked, find, strange } = parsed(this.wanted.hash);
    if (strange) say(this.told, "The link names no bytes: it should end like #bytes=100-200.");
    const order = new URLSearchParams(location.search).get("merged");
    if (!this.stream && order !== "time" && order !== "arrival") say(this.told, "There is no such order: the logs are merged by time.");
    if (marked && this.stream) this.mark(0, ...marked);
    const { place } = (!this.wanted.side && history.state) || {};
    if (setting("level")) this.leveled(setting("level"));
    const { range, side, time = range?.from || undefined } = this.wanted;
    if (place) this.go(place, 0);
    else this.go(marked ? { at: marked[0] } : time !== undefined ? { time } : { end: true }, side || range ? 0 : undefined);
    if (!side) this.search.recall(find, !marked && !place);
  }

  /** Whether the logs are in the order of their arrival, so that all times are those of the arrival. */
  get arriving() {
    return this.source.wanted?.order === "arrival";
  }

  /** Whether keys, and what is found, act on this list. */
  get leads() {
    const { side } = this.wanted;
    return !side || side.leader === this;
  }

  disconnectedCallback() {
    this.gone.abort();
    this.looking?.abort();
    this.stay.end();
    this.matching = null;
    this.unkey();
    document.removeEventListener("copy", this.oncopy);
  }

  /** Keeps the place in the history, so that going back, or loading the page anew, shows it again. */
  keep() {
    if (!this.stay.settled || !this.isConnected || this.wanted.side) return;
    const seen = this.list.seen();
    const place = this.list.follow || !seen || this.troubles.size ? null : this.source.placed(this.list.lines, seen.first.row);
    if (place || history.state?.place) history.replaceState({ ...history.state, place }, "");
  }

  // The parts of the page.

  build() {
    const button = (text, title, act, properties = {}) => h("button", { type: "button", title, on: { click: act }, ...properties }, text);
    const name = this.stream && `${this.stream.site}/${called(this.stream)}`;
    const { side } = this.wanted;
    const id = `rows${side ? side.pages.indexOf(this) : ""}`;
    this.list = h("log-list", { id, role: "log", "aria-live": "off", "aria-label": `Lines of ${name ?? this.run}` });
    this.map = h("mini-map", { "aria-controls": id, "aria-label": "Place in the log", hidden: !this.stream });
    this.search = side ? side.search : searchOf(this.run);
    if (!side) this.search.begin(this.run, this.stream, this.stream ? null : [], this.wanted.range);
    this.following = button("Follow", "Keep the end on the screen (f)", () => this.follow(), { "aria-pressed": "false", class: "follow" });
    this.level = levels("", () => this.filter());
    this.news = button("", "Go to the end (G)", () => this.end(), { class: "news", hidden: true });
    this.where = h("span", { class: "where" });
    this.told = h("span", { class: "told", role: "status" });
    this.trouble = h("p", { class: "trouble", role: "alert", hidden: true });
    const [heading, close] = side ? side.heading(this) : [];
    const whole = this.wanted.range ? `Download ${this.stream ? "the whole log" : "whole logs"}` : "Download"; // the range does not limit it
    const tools = h("div", { class: "tools", role: "toolbar", "aria-label": side ? `The log ${name}` : "This log" },
      heading, !side && this.wanted.range && chip(this.wanted.range, this.wanted.merged?.order), this.following, ...(side ? [] : [button("Search", "Search (/)", () => this.search.open()), this.level,
        button("Go to", "Go to a line, an offset, a share or a time (:)", () => goTo(this))]),
      (this.wrapping = button("Wrap", "Wrap all lines (w)", () => this.wraps())),
      this.stream && button("Link", "The link to the marked lines, and the command that shows them (c)", () => link(this)),
      this.stream && !side && h("a", { class: "button", href: `/api/raw?${query(this.stream)}`, download: true, title: "Download the log's bytes" }, whole),
      !this.stream && archive(this.run, this.wanted.merged, {}, whole),
      close ?? button("?", "Keys (?)", help, { "aria-label": "Keys" }));
    if (!side) this.append(h("h1", { class: "unseen" }, `${name ?? "Logs"} of ${this.run}`));
    this.append(tools, ...(side ? [] : [this.search]), this.trouble, h("div", { class: "view" }, this.list, this.map, this.news), h("footer", { class: "status" }, this.where, this.told));
    this.hear();
  }

  hear() {
    this.list.addEventListener("drawn", () => {
      this.drawn();
      if (this.stay.settled && !this.stay.guess) this.arrive();
    });
    this.list.addEventListener("follow", () => this.stopped());
    this.list.addEventListener("bottom", () => this.stay.settled && this.source.ends(this.list.lines) && this.resumed());
    this.list.addEventListener("choose", ({ detail }) => this.choose(detail.item, detail.more));
    this.list.addEventListener("field", ({ detail }) => this.search.recall({ text: detail.slice(0, 1000), regex: false, exact: true, only: true, field: whole(detail) }, false));
    this.list.addEventListener("short", ({ detail }) => this.tellCopied(detail));
    this.map.addEventListener("drag", ({ detail }) => this.drag(detail));
    this.map.addEventListener("wheeled", ({ detail }) => this.list.scrollBy(0, detail));
    this.gone = new AbortController();
    const { signal } = this.gone; // the search outlives this page
    this.search.addEventListener("found", () => this.ticks(), { signal });
    this.search.addEventListener("follow", () => this.pressed(), { signal });
    this.search.addEventListener("only", () => {
      if (this.search.listing && this.list.follow) this.search.follow(true);
      this.pressed();
      this.list.draw();
    }, { signal });
    this.search.addEventListener("asked", () => this.focused(), { signal });
    this.search.addEventListener("closed", () => {
      this.ticks();
      this.list.highlight([]);
      this.focused();
    }, { signal });
    if (!this.wanted.side) this.search.addEventListener("go", ({ detail }) => this.meets(detail), { signal });
    document.addEventListener("copy", (this.oncopy = (event) => this.copied(event)));
    this.classList.toggle("times", setting("times") === "on");
    const wrap = () => {
      this.list.wrap(setting("wrap") === "on");
      this.wrapping.setAttribute("aria-pressed", String(this.list.wraps));
    };
    heard("wrap", wrap, signal);
    wrap();
  }

  focused() {
    if (this.leads) this.list.focus({ preventScroll: true });
  }

  keys() {
    const scroll = (screens) => this.list.scrollBy(0, screens * (this.list.clientHeight - 40));
    const first = () => this.search.listing ? this.search.edge(false) : this.go(this.stream ? { at: this.source.state.first, start: true } : { start: true }, 0);
    const there = { // keys that act on a place: the page must have arrived there
      n: () => this.search.step(1), N: () => this.search.step(-1), e: () => this.error(), c: () => link(this), Enter: (event) => this.enter(event.shiftKey ? -1 : 1),
      j: () => this.move(1), k: () => this.move(-1), J: () => this.move(1, true), K: () => this.move(-1, true),
      ArrowDown: (event) => this.move(1, event.shiftKey), ArrowUp: (event) => this.move(-1, event.shiftKey),
      " ": () => scroll(1), PageDown: () => scroll(1), PageUp: () => scroll(-1), b: () => scroll(-1),
    };
    return {
      ...Object.fromEntries(Object.entries(there).map(([name, act]) => [name, (event) => this.there(() => act(event))])),
      "/": () => this.search.open(), g: first, Home: first, G: () => this.end(), End: () => this.end(), f: () => this.follow(),
      E: () => this.firstError(), ":": () => goTo(this), t: () => this.times(), w: () => this.wraps(), r: () => this.list.bare(), Escape: () => this.clear(), "?": help,
    };
  }

  // The screen.

  drawn() {
    const { list, source } = this;
    const seen = list.seen();
    if (!seen) {
      say(this.where, this.stay.settled ? this.nothing() : "");
      return this.more();
    }
    const [first, last] = [seen.first.row, seen.last.row];
    if (this.kept) this.kept.top ??= key(first);
    const share = source.share(seen.behind ? last[1] : last[2]);
    if (share !== null && !this.map.held) this.map.show(source.share(first[1]), Math.max(share, list.follow ? 1 : 0));
    const marked = this.cursor();
    const place = marked?.row ?? first;
    if (this.stay.settled && this.leads) this.search.reached({ of: source.streams[place[0]], at: place[1], on: marked !== null, time: place.time ?? place[5], ...(source.level && { head: list.lines.head(place)[1] }) });
    const number = seen.last.number === null ? null : seen.last.number - (last[4] & NOTE ? 1 : 0); // a note precedes its line
    const at = !seen.behind && source.ends(list.lines) ? source.state?.committed : last[2];
    const parts = [];
    if (number) parts.push(`line ${list.lines.about ? "\u2248 " : ""}${count(number)}`);
    if (this.stream) parts.push(`byte ${count(Math.min(at, source.state.committed))} of ${count(source.state.committed)}`, `${list.follow ? 100 : Math.floor(source.share(at) * 100)} %`);
    else parts.push(`${several(source.streams.length, "log")} by ${source.wanted.order}`);
    const time = timeOf(last);
    if (time) parts.push(`${this.arriving ? "arrived " : ""}${moment(time)} ${zone(time)}`);
    const lacking = this.lacking();
    if (lacking.before || lacking.behind) parts.push(...this.sought());
    say(this.where, this.search.listing ? "" : parts.join(" \u00b7 ")); // the list that it describes is hidden
    const greatest = list.lines.view().slice(0, -seen.behind || undefined).findLast((item) => item.number !== null)?.number ?? 0; // a bar has none
    const width = count(Math.max(greatest, 999)).length + (list.lines.about ? 1 : 0);
    if (this.width !== width) {
      this.style.setProperty("--digits", `${(this.width = width)}ch`);
      list.draw(); // less room for the lines
    }
    if (!this.stay.timers.keep) this.stay.later("keep", () => this.keep(), KEEP); // live rows must not put it off for ever
    this.tellNews();
    this.light();
    this.more();
  }

  /** The message that the page searches for rows of the level, and in how many bytes still. */
  sought() {
    const left = this.source.level ? this.source.unseen(this.list.lines) : 0;
    return left ? [`Looking for ${this.level.selectedOptions[0].text.toLowerCase()} \u2026 ${bytes(left)} to go`] : [];
  }

  /** The message if there is no row. */
  nothing() {
    const { source } = this;
    if (source.range) return source.wanted?.order === "arrival" ? "No line arrived then." : "No line is of this time.";
    if (!source.level) return source.sealed ? "This log is empty." : "No line yet.";
    return this.sought()[0] ?? `No ${this.level.value} ${source.sealed ? (this.stream ? "in this log" : "in these logs") : "yet"}.`;
  }

  tellNews() {
    const { list, source } = this;
    const seen = list.seen();
    const missing = this.stream && !this.live && seen ? source.state.committed - seen.last.row[2] : 0;
    this.news.hidden = list.follow || (!this.fresh && missing <= 0) || (source.sealed && !this.fresh);
    if (!this.news.hidden) say(this.news, missing > 0 ? `${bytes(missing)} more \u2193` : `${several(this.fresh, "new line")} \u2193`);
  }

  /** Highlights the search's hits on the screen. */
  async light() {
    const matcher = this.search.matcher;
    if (!matcher || matcher.ended) return;
    this.unlit = Boolean(this.matching); // the rows that are being matched may be others by now
    if (this.unlit) return;
    const texts = this.list.texts();
    const signature = texts.map(([name, text]) => `${name}${text.length}`).join();
    if (signature === this.lit?.signature && matcher === this.lit.matcher) return;
    this.matching = true;
    try {
      this.list.highlight(await matcher.find(texts));
      this.lit = { signature, matcher };
    } catch (error) {
      if (!(error instanceof Endless)) throw error;
    } finally {
      this.matching = false;
    }
    if (this.unlit) this.light();
  }

  ticks() {
    if (!this.stream) return;
    const mine = this.search.hits.parts.get(`${this.stream.site}/${this.stream.log}`);
    this.map.mark((mine?.hits ?? []).map((hit) => this.source.share(hit.offset)));
    this.lit = null;
    this.list.draw();
  }

  // Errors, the level and times.

  async error() {
    const { list, source } = this;
    const marked = this.cursor()?.row;
    try {
      const found = await this.waits(source.nextError(list.lines, marked ?? list.seen()?.first.row, Boolean(marked), this.looks()), "the next error");
      if (!found) say(this.told, "There is no error below this place.");
      else if (this.stream) this.show({ ...this.stream, offset: found.row[1], end: found.row[2] });
      else await this.reach(found);
    } catch (error) {
      if (error.name !== "AbortError") this.lost("error", error);
    }
  }

  async firstError() {
    this.stay.held.length = 0; // older keys that still wait for their place
    try {
      const { found, looking } = await this.waits(ask(`/api/first-error?${query({ run: this.run })}`, undefined, { signal: this.looks() }), "the first error");
      if (found) this.show({ ...found.stream, offset: found.offset, end: found.end });
      else say(this.told, looking ? "No error so far; the logs are still being read." : "There is no error in this run.");
    } catch (error) {
      if (error.name !== "AbortError") this.lost("error", error);
    }
  }

  /** The signal of a new search for an error: an earlier one is cancelled. */
  looks() {
    this.looking?.abort();
    return (this.looking = new AbortController()).signal;
  }

  /** Chooses rows of *level*. */
  leveled(level) {
    this.level.value = level;
    this.source.level = level || null;
    this.list.lines.level = LEVELS[level];
    if (this.leads) this.search.leveled(level);
  }

  filter() {
    const { list, source, stream } = this;
    const seen = list.seen();
    const ends = list.follow || !seen || (source.sealed && !seen.behind && source.ends(list.lines));
    const kept = !list.follow && this.kept && (!this.kept.top || list.nodes.has(this.kept.top)) && this.kept.place; // few rows of a level fit on the screen, or none yet: none of them tells the place
    const place = kept ? kept : ends ? { end: true } : stream ? { at: (this.cursor() ?? seen.first).row[1] } : source.releveled(list.lines, seen.first.row);
    this.leveled(this.level.value);
    set("level", this.level.value);
    this.kept = null;
    this.go(place, stream ? undefined : 0).then(() => {
      if (!stream && !place.end) this.kept = { place, top: null };
    });
    this.focused();
  }

  wraps() {
    set("wrap", this.list.wraps ? "off" : "on");
  }

  times() {
    const on = this.classList.toggle("times");
    set("times", on ? "on" : "off");
    this.list.draw();
    if (on && !this.list.lines.rows.some(timeOf)) say(this.told, "The lines on this page bear no times.");
    else if (on && this.arriving) say(this.told, "These are the times of the arrival.");
  }
}

/** Whether *field* is one of JSON, which the server can compare. */
function whole(field) {
  try {
    return field.length <= 1000 && Boolean(JSON.parse(`{${field}}`));
  } catch {
    return false;
  }
}

/** The choice of a level, of which *level* is chosen at first. */
export function levels(level, change) {
  return h("select", { "aria-label": "Level", on: { change } }, ...[["", "All lines"], ["warning", "Warnings and errors"], ["error", "Errors"]].map(([value, text]) => h("option", { value, selected: value === level }, text)));
}

customElements.define("log-page", LogPage);
