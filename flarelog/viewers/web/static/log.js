/**
 * The page of one log, or of several that are merged: a list of rows, the whole log beside it, and what one does with
 * them. The list holds rows around one place. At the end a stream brings new rows; "follow" keeps the end on the screen.
 */

import { Refused, ask, path, query } from "./api.js";
import { h, say } from "./dom.js";
import { card, help, listen } from "./keys.js";
import { ERROR, NOTE, TRACE, WARNING, key } from "./lines.js";
import "./list.js";
import "./minimap.js";
import { Endless } from "./matching.js";
import { nextError } from "./search.js";
import { Merged, OneLog } from "./source.js";
import { Tail } from "./tail.js";
import { bytes, clock, count, place, several } from "./words.js";

const NEAR = 150; // rows beyond the screen at which more are asked for
const LEVELS = { "": 0, warning: WARNING | ERROR | TRACE, error: ERROR | TRACE };

export class LogPage extends HTMLElement {
  /** @param {{run: string, stream?: {run: string, site: string, log: string}, merged?: object, hash: string}} wanted */
  begin(wanted) {
    this.wanted = wanted;
    this.run = wanted.run;
    this.stream = wanted.stream ?? null;
    this.source = this.stream ? new OneLog(this.stream) : new Merged({ run: this.run, ...wanted.merged });
    this.fresh = 0; // rows that came behind the screen
    return this;
  }

  connectedCallback() {
    this.build();
    this.unkey = listen(this.keys());
    this.list.lines.merged = !this.stream;
    const marked = /^#bytes=(\d+)-(\d+)$/.exec(this.wanted.hash ?? "");
    if (marked && this.stream) this.mark(0, Number(marked[1]), Number(marked[2]));
    this.go(marked ? { at: Number(marked[1]) } : this.wanted.time !== undefined ? { time: this.wanted.time } : { end: true });
  }

  disconnectedCallback() {
    this.asking?.abort();
    this.quiet();
    clearTimeout(this.glance);
    clearTimeout(this.counting);
    this.matching = null;
    this.unkey();
    document.removeEventListener("copy", this.oncopy);
  }

  // What the page is made of.

  build() {
    const button = (text, title, act, properties = {}) => h("button", { type: "button", title, on: { click: act }, ...properties }, text);
    this.list = document.createElement("log-list");
    this.list.id = "rows";
    this.list.setAttribute("role", "log");
    this.list.setAttribute("aria-live", "off");
    this.list.setAttribute("aria-label", this.stream ? `Lines of ${this.stream.site}/${this.stream.log}` : `Lines of ${this.run}`);
    this.map = document.createElement("mini-map");
    this.map.setAttribute("aria-controls", "rows");
    this.map.setAttribute("aria-label", "Place in the log");
    this.map.hidden = !this.stream;
    this.search = document.createElement("search-bar");
    this.search.hidden = true;
    this.search.begin(this.run, this.stream, null);
    this.following = button("Follow", "Keep the end on the screen (f)", () => this.follow(), { "aria-pressed": "false", class: "follow" });
    this.level = h("select", { "aria-label": "Level", on: { change: () => this.filter() } }, ...[["", "All lines"], ["warning", "Warnings and errors"], ["error", "Errors"]].map(([value, text]) => h("option", { value }, text)));
    this.news = button("", "Go to the end (G)", () => this.end(), { class: "news", hidden: true });
    this.where = h("span", { class: "where" });
    this.told = h("span", { class: "told", role: "status" });
    this.trouble = h("p", { class: "trouble", role: "alert", hidden: true });
    const raw = this.stream && `/api/raw?${query(this.stream)}`;
    const tools = h("div", { class: "tools", role: "toolbar", "aria-label": "This log" },
      this.following, button("Search", "Search (/)", () => this.search.open()), this.level,
      button("Go to", "Go to a line, an offset, a share or a time (:)", () => this.ask()),
      this.stream && button("Link", "The link to the marked lines, and the command that shows them (c)", () => this.link()),
      this.stream && h("a", { class: "button", href: raw, download: `${this.stream.site}-${this.stream.log.replaceAll("/", "-")}`, title: "Download the log's bytes" }, "Download"),
      button("?", "Keys (?)", help, { "aria-label": "Keys" }));
    this.append(h("h1", { class: "unseen" }, this.stream ? `${this.stream.site}/${this.stream.log} of ${this.run}` : `Logs of ${this.run}`), tools, this.search, this.trouble, h("div", { class: "view" }, this.list, this.map, this.news), h("footer", { class: "status" }, this.where, this.told));
    this.hear();
  }

  hear() {
    this.list.addEventListener("drawn", () => this.drawn());
    this.list.addEventListener("follow", () => this.stopped());
    this.list.addEventListener("bottom", () => (this.live || this.source.sealed ? this.resumed() : null));
    this.list.addEventListener("choose", ({ detail }) => this.choose(detail.item, detail.more));
    this.map.addEventListener("drag", ({ detail }) => this.drag(detail));
    this.map.addEventListener("wheeled", ({ detail }) => this.list.scrollBy(0, detail));
    this.search.addEventListener("found", () => this.ticks());
    this.search.addEventListener("closed", () => {
      this.ticks();
      this.list.highlight([]);
      this.list.focus({ preventScroll: true });
    });
    this.search.addEventListener("go", ({ detail }) => this.show(detail));
    document.addEventListener("copy", (this.oncopy = (event) => this.copied(event)));
    try {
      this.classList.toggle("times", localStorage.getItem("times") === "on");
    } catch {
      // a browser that keeps nothing
    }
  }

  keys() {
    return {
      "/": () => this.search.open(), n: () => this.search.step(1), N: () => this.search.step(-1),
      g: () => this.go(this.stream ? { at: this.source.state.first } : { start: true }, 0), G: () => this.end(), End: () => this.end(),
      Home: () => this.go(this.stream ? { at: this.source.state.first } : { start: true }, 0),
      j: () => this.move(1), k: () => this.move(-1), J: () => this.move(1, true), K: () => this.move(-1, true),
      ArrowDown: (event) => this.move(1, event.shiftKey), ArrowUp: (event) => this.move(-1, event.shiftKey),
      " ": () => this.list.scrollBy(0, this.list.clientHeight - 40), PageDown: () => this.list.scrollBy(0, this.list.clientHeight - 40),
      PageUp: () => this.list.scrollBy(0, 40 - this.list.clientHeight), b: () => this.list.scrollBy(0, 40 - this.list.clientHeight),
      f: () => this.follow(), e: () => this.error(), E: () => this.firstError(), ":": () => this.ask(), t: () => this.times(),
      c: () => this.link(), Escape: () => this.clear(), "?": help,
      Enter: (event) => event.target === this.list && this.list.current && this.toggle(),
    };
  }

  // Places.

  /** Shows the place *where*, at *share* of the screen; the newest wish wins. */
  async go(where, share = 0.35) {
    this.asking?.abort();
    const asking = (this.asking = new AbortController());
    this.quiet();
    try {
      const answer = await this.source.open(where, asking.signal);
      this.taken(answer, where, share);
    } catch (error) {
      if (error.name !== "AbortError") this.lost(error, () => this.go(where, share));
    }
  }

  taken(answer, where, share) {
    const { list, source } = this;
    this.lost(null);
    const lines = list.lines;
    lines.replace(answer.rows, answer);
    this.known(source.streams);
    this.fresh = 0;
    const live = source.ends(lines) && !source.sealed;
    list.follow = Boolean(where.end) && live;
    const offset = where.at ?? answer.at ?? (where.share !== undefined ? this.byShare(where.share) : null);
    if (list.marked && where.at !== undefined) lines.unfold(where.at, list.marked[0]);
    let index = where.end ? lines.view().length : where.line !== undefined ? lines.view().findIndex((item) => item.number === where.line)
      : where.time !== undefined ? lines.view().findIndex((item) => item.row[5] >= where.time) : offset === null ? 0 : lines.find(offset);
    if (index < 0) index = where.time !== undefined ? Math.max(0, lines.view().length - 1) : 0;
    if (where.at !== undefined && list.marked && lines.view()[index]) list.current = key(lines.view()[index].row);
    list.reveal(index, where.end ? 1 : where.share !== undefined ? where.share : share);
    if (live && !this.map.held) this.listen();
    else this.watch();
    this.pressed();
    this.count();
  }

  /** The server counts lines once it has seen all of the log: it is asked again until it has. */
  async count() {
    clearTimeout(this.counting);
    const { lines } = this.list;
    const row = lines.rows.find((one) => !(one[4] & NOTE));
    if (!this.stream || !row || (lines.number !== null && !lines.about) || this.source.level) return;
    try {
      const number = await this.source.line(row[1], this.asking.signal);
      const at = lines.rows.indexOf(row);
      if (number === null || at < 0) this.counting = setTimeout(() => this.count(), 1000);
      else {
        lines.number = number - lines.rows.slice(0, at).filter((one) => !(one[4] & NOTE)).length;
        lines.about = false;
        lines.changed();
        this.list.draw();
      }
    } catch {
      // another place is asked for, or nobody answers: that is said elsewhere
    }
  }

  byShare(share) {
    const { first, committed } = this.source.state;
    return Math.round(first + share * (committed - first));
  }

  end() {
    this.list.current = null;
    if (this.live && this.source.ends(this.list.lines)) this.resumed();
    else this.go({ end: true });
  }

  /** Asks for the place that is dragged to, one question at a time. */
  async drag(share) {
    this.dragging = share;
    if (this.dragged) return;
    this.dragged = true;
    try {
      while (this.dragging !== null) {
        const wanted = this.dragging;
        this.dragging = null;
        await this.go(wanted >= 1 ? { end: true } : { share: wanted });
      }
    } finally {
      this.dragged = false;
    }
  }

  async more() {
    const { list, source } = this;
    const seen = list.seen();
    if (!seen || this.loading || this.dragged) return;
    const lines = list.lines;
    const held = lines.rows;
    try {
      this.loading = true;
      if (seen.before < NEAR && (!list.follow || list.whole < 2 * list.clientHeight)) {
        const answer = await source.earlier(lines, this.asking.signal);
        if (answer && lines.rows.length && lines.rows[0] === held[0]) {
          list.prepend(answer.rows, answer);
          if (lines.trimTail()) this.behind();
        }
      }
      if (seen.behind < NEAR && !this.live) {
        const answer = await source.later(lines, this.asking.signal);
        if (answer) {
          lines.append(answer.rows);
          for (const row of answer.open ?? []) lines.reopen(row[0], answer.open.filter((one) => one[0] === row[0]));
          lines.whole = Boolean(answer.open?.length);
          if (answer.to !== undefined) lines.to = Math.max(lines.to, answer.to);
          if (!list.selection) list.moved(-lines.trimHead(12000));
          list.draw();
        }
        if (source.ends(lines) && !source.sealed && !this.live) this.listen();
      }
    } catch (error) {
      if (error.name !== "AbortError") this.lost(error, () => this.more());
    } finally {
      this.loading = false;
    }
  }

  // The live end.

  listen() {
    clearTimeout(this.glance);
    const { list, source } = this;
    this.live = new Tail(source.tails(list.lines), source.wanted?.order ?? "arrival", {
      streams: (streams) => this.known(streams),
      rows: (rows) => this.came(rows),
      bars: (k, rows) => {
        list.lines.reopen(k, rows);
        list.draw();
      },
      at: (places) => source.at(list.lines, places),
      lost: (sentence) => this.lost(sentence && new Refused(0, sentence)),
      done: () => {
        this.live = null;
        if (this.stream) source.state.sealed = true;
        else source.sealed = true;
        list.turn(false);
        this.pressed();
      },
    });
    this.pressed();
  }

  quiet() {
    this.live?.stop();
    this.live = null;
  }

  came(rows) {
    const { list } = this;
    const fresh = list.lines.append(rows);
    if (list.follow) list.lines.trimHead();
    else {
      this.fresh += fresh;
      if (list.lines.full) this.behind();
    }
    list.draw();
  }

  /** The end is not held any more: the stream would bring rows that nobody looks at. */
  behind() {
    this.quiet();
    this.watch();
  }

  /** Looks now and then how far the log is, while no stream tells. */
  watch() {
    clearTimeout(this.glance);
    if (this.live || this.source.sealed || !this.stream) return;
    this.glance = setTimeout(async () => {
      try {
        if (document.visibilityState === "visible") await this.source.look(this.asking.signal);
        this.lost(null);
        this.list.draw();
      } catch (error) {
        if (error.name === "AbortError") return;
        this.lost(error);
      }
      this.watch();
    }, 1500);
  }

  follow() {
    if (this.list.follow) this.list.turn(false);
    else this.end();
  }

  stopped() {
    this.pressed();
    this.list.draw();
  }

  resumed() {
    this.fresh = 0;
    this.list.turn(!this.source.sealed);
    if (this.source.sealed) this.list.reveal(this.list.lines.view().length, 1);
    this.pressed();
  }

  pressed() {
    const over = this.source.sealed;
    this.following.setAttribute("aria-pressed", String(this.list.follow));
    this.following.disabled = over;
    say(this.following, over ? "Ended" : this.list.follow ? "Following" : "Follow");
  }

  known(streams) {
    this.source.streams = streams.map((stream) => ({ run: this.run, ...stream }));
    const sites = [...new Set(streams.map((stream) => stream.site))].sort();
    this.list.names = streams.map((stream) => `${stream.site}/${stream.log}`);
    this.list.colours = streams.map((stream) => sites.indexOf(stream.site) % 8);
    if (!this.stream) {
      this.search.streams = streams.map(({ site, log }) => ({ site, log }));
      const widest = Math.max(4, ...this.list.names.map((name) => name.length));
      this.style.setProperty("--tag", `${Math.min(widest, 28)}ch`);
      this.classList.add("tagged");
      if (this.source.left) say(this.told, `${several(this.source.left, "log")} more in this run: choose fewer to merge them.`);
    }
  }

  /** Says that the page's server, or the receiver, does not answer; null: it does. */
  lost(error, again) {
    this.trouble.hidden = !error;
    say(this.trouble, error ? (/[.!]$/.test(error.message) ? error.message : `${error.message}.`) : "");
    if (again && error.status === 0) {
      clearTimeout(this.again);
      this.again = setTimeout(() => this.isConnected && again(), 1000);
    }
  }

  // What is on the screen.

  drawn() {
    const { list, source } = this;
    const seen = list.seen();
    if (!seen) return say(this.where, source.sealed ? "This log is empty." : "No line yet.");
    const [first, last] = [seen.first.row, seen.last.row];
    const share = source.share(seen.behind ? last[1] : last[2]);
    if (share !== null && !this.map.held) this.map.show(source.share(first[1]), Math.max(share, list.follow ? 1 : 0));
    this.search.dataset.at = String(this.cursor()?.row[1] ?? first[1] - 1);
    const number = seen.last.number;
    const parts = [];
    if (number !== null) parts.push(`line ${list.lines.about ? "\u2248 " : ""}${count(number)}`);
    if (this.stream) parts.push(`byte ${count(Math.min(last[2], source.state.committed))} of ${count(source.state.committed)}`, `${list.follow ? 100 : Math.floor(share * 100)} %`);
    if (last[5]) parts.push(clock(last[5]));
    say(this.where, parts.join(" \u00b7 "));
    const width = number === null ? 1 : count(Math.max(number, 999)).length + (list.lines.about ? 1 : 0);
    if (this.width !== width) this.style.setProperty("--digits", `${(this.width = width)}ch`);
    this.tellNews();
    this.light();
    this.more();
  }

  tellNews() {
    const { list, source } = this;
    const missing = this.stream && !this.live ? source.state.committed - list.lines.to : 0;
    this.news.hidden = list.follow || (!this.fresh && missing <= 0) || (source.sealed && !this.fresh);
    if (!this.news.hidden) say(this.news, missing > 0 ? `${bytes(missing)} more \u2193` : `${several(this.fresh, "new line")} \u2193`);
  }

  /** Marks the search's hits on the screen. */
  async light() {
    const matcher = this.search.matcher;
    if (!matcher || matcher.ended || this.matching) return;
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
  }

  ticks() {
    if (!this.stream) return;
    this.map.mark("hit", this.search.hits.filter((hit) => this.search.here(hit)).map((hit) => this.source.share(hit.offset)));
    this.lit = null;
    this.list.draw();
  }

  // Lines that are chosen.

  cursor() {
    const index = this.list.current === null ? -1 : this.list.indexOf(this.list.current);
    return index < 0 ? null : this.list.lines.view()[index];
  }

  choose(item, more = false) {
    const { list } = this;
    const [k, offset, end, text, flags] = item.row;
    if (!more && list.current === key(item.row)) return this.clear();
    if (list.follow) list.turn(false);
    list.current = key(item.row);
    list.extra = 0;
    if (!(flags & NOTE)) {
      if (more && this.anchor && this.anchor[0] === k) this.mark(k, Math.min(offset, this.anchor[1]), Math.max(end, this.anchor[2], offset + 1));
      else this.mark(k, offset, Math.max(end, offset + 1), true);
    }
    say(this.told, `${item.number ? `Line ${count(item.number)}: ` : ""}${text.slice(0, 300)}`);
    list.draw();
  }

  mark(k, from, to, anchor = false) {
    if (anchor) this.anchor = [k, from, to];
    this.list.marked = [k, from, to];
    if (this.stream) history.replaceState(null, "", `${location.pathname}${location.search}#bytes=${from}-${to}`);
  }

  clear() {
    this.list.current = this.list.marked = this.anchor = null;
    if (location.hash) history.replaceState(null, "", `${location.pathname}${location.search}`);
    say(this.told, "");
    if (!this.search.hidden) this.search.close();
    this.list.draw();
  }

  toggle() {
    const item = this.cursor();
    if (item?.hidden) this.list.unfold(item);
  }

  move(step, more = false) {
    const { list } = this;
    const view = list.lines.view();
    const seen = list.seen();
    if (!seen) return;
    const at = list.current === null ? -1 : list.indexOf(list.current);
    let index = at < 0 ? (step > 0 ? seen.before : view.length - 1 - seen.behind) : at + step;
    index = Math.max(0, Math.min(view.length - 1, index));
    if (list.current !== key(view[index].row)) this.choose(view[index], more);
    list.reveal(index, null);
  }

  /** Shows *hit*, of this log or another. */
  show({ site, log, offset, end }) {
    if (!this.stream || site !== this.stream.site || log !== this.stream.log) {
      return this.dispatchEvent(new CustomEvent("visit", { bubbles: true, detail: `${path(this.run, site, log)}#bytes=${offset}-${end}` }));
    }
    const { list } = this;
    this.mark(0, offset, Math.max(end, offset + 1), true);
    list.lines.unfold(offset);
    const held = offset >= list.lines.from && offset < list.lines.to;
    const index = held ? list.lines.find(offset) : -1;
    if (index < 0) return this.go({ at: offset });
    if (list.follow) list.turn(false);
    list.current = key(list.lines.view()[index].row);
    const seen = list.seen();
    list.reveal(index, index > seen.before + 1 && index < list.lines.view().length - seen.behind - 2 ? null : 0.35);
  }

  async error() {
    if (!this.stream) return this.firstError();
    const from = this.cursor()?.row[2] ?? this.list.seen()?.first.row[1] ?? 0;
    try {
      const row = await nextError(this.stream, from);
      if (row) this.show({ ...this.stream, offset: row[1], end: row[2] });
      else say(this.told, "There is no error behind this place.");
    } catch (error) {
      this.lost(error);
    }
  }

  async firstError() {
    try {
      const { found, looking } = await ask(`/api/first-error?${query({ run: this.run })}`);
      if (found) this.show({ ...found.stream, offset: found.offset, end: found.end });
      else say(this.told, looking ? "No error so far; the logs are still being read." : "There is no error in this run.");
    } catch (error) {
      this.lost(error);
    }
  }

  filter() {
    const at = this.cursor()?.row[1] ?? this.list.seen()?.first.row[1];
    const end = this.list.follow;
    this.source.level = this.level.value || null;
    this.list.lines.level = LEVELS[this.level.value];
    this.go(end || at === undefined || !this.stream ? { end: true } : { at });
    this.list.focus({ preventScroll: true });
  }

  times() {
    const on = this.classList.toggle("times");
    try {
      localStorage.setItem("times", on ? "on" : "off");
    } catch {
      // a browser that keeps nothing
    }
    if (on && !this.list.lines.rows.some((row) => row[5])) say(this.told, "The lines on this page bear no times.");
  }

  // What leaves the page.

  ask() {
    const input = h("input", { name: "place", "aria-label": "Place", autocomplete: "off", placeholder: "1200, @4096, 50%, 08:12:03" });
    const said = h("output", {});
    const form = h("form", {}, input, h("button", {}, "Go"), said);
    const dialog = card("Go to", h("p", {}, "A line, @ and an offset in bytes, a share in %, or a time in UTC."), form);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const wanted = place(input.value, this.list.seen()?.first.row[5] ?? Date.now());
      if (!wanted || (!this.stream && wanted.time === undefined)) return say(said, this.stream ? "This is no line, offset, share or time." : "Merged logs have times alone.");
      dialog.close();
      this.clear();
      this.go(wanted);
    });
    input.focus();
  }

  async link() {
    const range = this.list.marked ?? [0, this.list.seen()?.first.row[1] ?? 0, this.list.seen()?.last.row[2] ?? 0];
    const stream = this.source.streams[range[0]];
    if (!stream) return;
    const link = `${location.origin}${path(this.run, stream.site, stream.log)}#bytes=${range[1]}-${range[2]}`;
    const shown = (text) => {
      const code = h("code", {}, text);
      const button = h("button", { type: "button" }, "Copy");
      button.addEventListener("click", async () => {
        await navigator.clipboard.writeText(text);
        say(button, "Copied");
      });
      return h("div", { class: "copy" }, code, button);
    };
    const raw = `/api/raw?${query({ ...stream, from: range[1], to: range[2] })}`;
    const command = h("div", {});
    card("These lines", h("h3", {}, "Link"), shown(link), h("h3", {}, "In a terminal"), command,
      h("p", {}, h("a", { href: raw, download: `${stream.site}-${stream.log.replaceAll("/", "-")}` }, `Download these ${bytes(range[2] - range[1])}`)));
    try {
      command.append(shown((await ask(`/api/command?${query({ ...stream, from: range[1], to: range[2] })}`)).command));
    } catch (error) {
      command.append(h("p", {}, error.message));
    }
  }

  /** Copies the marked lines, however many: those that are not held are fetched. */
  copied(event) {
    const { list } = this;
    if (!list.marked || !getSelection().isCollapsed || event.target.closest?.("input, dialog")) return;
    const [k, from, to] = list.marked;
    const rows = list.lines.rows.filter((row) => row[0] === k && !(row[4] & NOTE) && row[1] < to && (row[2] > from || row[1] >= from));
    event.preventDefault();
    if (!this.stream || (from >= list.lines.from && to <= list.lines.to)) {
      event.clipboardData.setData("text/plain", rows.map((row) => row[3]).join("\n"));
      say(this.told, `${several(rows.length, "line")} copied.`);
    } else this.fetched(from, to);
  }

  async fetched(from, to) {
    const texts = [];
    for (let at = from, size = 0; at < to && size < 16e6; ) {
      const answer = await this.source.window({ at, rows: 1000 });
      for (const row of answer.rows) {
        if (row[1] >= to || row[4] & NOTE) continue;
        texts.push(row[3]);
        size += row[3].length;
      }
      if (answer.to <= at) break;
      at = answer.to;
    }
    await navigator.clipboard.writeText(texts.join("\n"));
    say(this.told, `${several(texts.length, "line")} copied.`);
  }
}

customElements.define("log-page", LogPage);
