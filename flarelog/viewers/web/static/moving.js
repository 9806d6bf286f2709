/**
 * A list at a place, and its moves to other places: rows around a place are requested, more rows while the user scrolls,
 * and at the end a stream brings new ones. "Follow" keeps the end on the screen.
 */

import { EITHER, Refused, path, waited } from "./api.js";
import { say } from "./dom.js";
import { NOTE, key } from "./lines.js";
import { hue } from "./paint.js";
import { ASTRAY, tells } from "./runs.js";
import { Tail } from "./tail.js";
import { apart, called, count, moment, several, short, zone } from "./words.js";

const COUNTED = 300; // ms between two requests for a line number, until the lines are counted
const RETRIES = { 0: 1000, 503: 1000, 404: 5000 }; // ms before a retry, by status: no answer, or no such log
const TAG = [28, 12]; // characters of a log's name before its rows: on a wide screen, and on a phone
const LOOK = 1500; // ms between two requests for the log's length, while no stream tells it
const SLOW = 4000; // ms after which the page says who has not answered
const REMOVED = 20_000; // ms between two looks whether a log that has ended is still there
const HELD = 1000; // ms that keys wait for a line to be counted; then they act at its estimated place
const UNTROUBLED = 250; // ms without a trouble before its line goes: a list that grows for a moment would scroll, and stop following
const NEAR = 150; // rows beyond the screen: with fewer, more are requested

/**
 * A stay at one place: all its requests and its stream. It ends as a whole when the page goes to another place, so that
 * rows of two places never mix.
 */
class Stay extends AbortController {
  arrived = false; // whether its rows are drawn, and its line is no estimate: until then keys wait
  held = []; // the actions of the keys that wait
  settled = false; // whether the rows of the place are there: until then the list shows the place before
  loading = false;
  guess = null; // of a line that is not counted yet: its estimated place, and the first row shown there
  live = null; // the stream, if the list holds the end
  timers = {};

  /** The result of *answer*; throws if the stay is over by then. */
  async got(answer) {
    const said = await answer;
    this.signal.throwIfAborted();
    return said;
  }

  /** Runs *act* in *ms*, instead of an earlier act of the same *name*. */
  later(name, act, ms) {
    clearTimeout(this.timers[name]);
    this.timers[name] = this.signal.aborted ? 0 : setTimeout(() => {
      this.timers[name] = 0;
      act();
    }, ms);
  }

  hush() {
    this.live?.stop();
    this.live = null;
  }

  end() {
    this.hush();
    this.abort();
    for (const timer of Object.values(this.timers)) clearTimeout(timer);
  }
}

export class Moving extends HTMLElement {
  stay = new Stay();

  get live() {
    return this.stay.live;
  }

  // Places.

  /** Shows the place *where*, at *share* of the screen, and chooses its line if *aims*; the newest call wins. */
  async go(where, share = 0.35, aims = false, held = []) {
    this.leave();
    const stay = (this.stay = new Stay());
    stay.held = held;
    try {
      const answer = await stay.got(this.waits(this.source.open(where, stay.signal), "the lines"));
      stay.settled = true;
      this.taken(answer, where, share, aims);
      if (held.length) this.hurry();
    } catch (error) {
      if (stay.signal.aborted) return;
      this.lost("rows", error, () => this.go(where, share, aims));
      this.arrive();
    }
  }

  /** The result of *answer*; says after a second that the page waits for *what*, and later for whom, unless it asks for that in many steps. */
  async waits(answer, what) {
    const sentence = `Waiting for ${what} \u2026`;
    const late = `${sentence} ${EITHER} has not answered yet`;
    let before = "";
    const tell = () => {
      if (this.source.level) return; // the footer says how many bytes are left
      before = this.told.textContent;
      say(this.told, sentence);
    };
    const slow = setTimeout(() => what.endsWith("lines") && this.told.textContent === sentence && say(this.told, late), SLOW);
    try {
      return await waited(answer, tell);
    } finally {
      clearTimeout(slow);
      if ([sentence, late].includes(this.told.textContent)) say(this.told, before);
    }
  }

  /** Runs *act*, for a key, as soon as the page has arrived at its place. */
  there(act) {
    const { stay } = this;
    if (stay.arrived) return act();
    stay.held.push(act);
    if (stay.settled) this.hurry();
  }

  hurry() {
    const { stay } = this;
    if (stay.timers.hurry) return;
    stay.later("hurry", () => {
      stay.guess = null;
      this.arrive();
    }, HELD);
  }

  arrive() {
    this.stay.arrived = true;
    for (const act of this.stay.held.splice(0)) this.there(act); // an act may go to yet another place
  }

  leave() {
    this.stay.end();
    for (const what of ["tail", "length"]) this.lost(what, null);
  }

  taken(answer, where, share, aims) {
    const { list, source } = this;
    this.lost("rows", null);
    this.lost("error", null);
    const lines = list.lines;
    lines.replace(answer.rows, answer);
    this.known(source.streams);
    this.search.bound(this.stream ? null : source.streams, source.bounds());
    if (answer.clocks?.length) say(this.told, `${answer.clocks.join("; ")}.`);
    this.fresh = 0;
    const live = source.ends(lines) && !source.sealed;
    list.follow = Boolean(where.end) && live;
    if (this.search.listing && !this.search.search.shown) this.search.follow(list.follow);
    const offset = answer.at ?? null;
    if (list.marked && where.at !== undefined) lines.unfold(where.at, list.marked[0]);
    let index = where.end || answer.past ? lines.view().length
      : where.start ? 0 // notes may stand above the first line
      : where.time !== undefined ? lines.view().findIndex((item) => item.row[1] >= offset) : offset === null ? 0 : lines.find(offset);
    const found = index;
    if (index < 0) index = where.time !== undefined ? Math.max(0, lines.view().length - 1) : 0;
    const chosen = lines.view()[where.top && list.marked ? lines.find(list.marked[1], list.marked[0]) : index];
    if (where.at !== undefined && list.marked && chosen && (!where.top || list.marked[1] < chosen.row[2])) list.current = key(chosen.row);
    list.reveal(index, where.end ? 1 : where.share !== undefined ? Math.min(1, where.share) : share);
    if (list.current !== null) list.scrollIntoView({ block: "nearest" }); // in a low window the bars above the list take most of the room
    if (live && !this.map.held) this.listen();
    else this.watch();
    this.pressed();
    const beyond = where.line !== undefined ? !answer.about && answer.at >= answer.committed : where.at > answer.committed - Boolean(list.marked) || where.share > 1;
    const asked = where.line !== undefined ? `line ${count(where.line)}` : where.share > 1 ? `${count(Number((100 * where.share).toFixed(2)))} %` : `byte ${count(where.at)}`;
    const aim = lines.view()[found]; // undefined if no line is at that time or behind it
    if (beyond) say(this.told, `The log ends before ${asked}.`);
    else if (where.time !== undefined && lines.view().slice(found < 0 ? lines.view().length : found).every(({ row }) => row[4] & NOTE)) {
      say(this.told, `No line${source.level ? " of this level" : ""} ${this.arriving ? "arrived at" : "is of"} ${moment(where.time)} ${zone(where.time)} or later.`);
    } else if (aims && where.time !== undefined && this.arriving) say(this.told, `The first line that arrived at ${moment(where.time)} ${zone(where.time)} or later is on the screen.`);
    this.stay.guess = where.line !== undefined && answer.about ? { where, first: list.seen()?.first.row[1] } : null;
    if (aims && aim && this.stream && where.share === undefined && !beyond && !this.stay.guess) this.choose(aim);
    this.count();
  }

  /** Requests the number of a line until the server has counted the whole log. */
  async count() {
    const { stay } = this;
    const { lines } = this.list;
    const row = lines.rows.find((one) => !(one[4] & NOTE));
    if (!this.stream || !row || (lines.number !== null && !lines.about && !stay.guess)) return; // an answer may have told it
    try {
      const number = await stay.got(this.source.line(row[1], stay.signal));
      if (number === null || !lines.rows.includes(row)) stay.later("count", () => this.count(), COUNTED);
      else if (stay.guess?.first === this.list.seen()?.first.row[1]) this.go(stay.guess.where, undefined, true, stay.held);
      else {
        stay.guess = null;
        lines.counted(row, number);
        this.list.draw();
      }
    } catch {
      // the page has gone elsewhere, or the server does not answer, which is shown elsewhere
    }
  }

  end() {
    if (this.search.listing) return void this.search.edge(true);
    this.list.current = null;
    history.replaceState({ ...history.state, place: null }, ""); // a reload before the end is there shows it as well
    if (this.live && this.source.ends(this.list.lines)) this.resumed();
    else this.go({ end: true });
  }

  /** Requests the place that is dragged to, one request at a time. */
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

  /** Which rows to request next: those before the rows of the list, or those behind them. */
  lacking() {
    const { list, source } = this;
    const seen = list.seen() ?? { before: 0, behind: 0 }; // the level may leave out all rows so far
    return {
      before: seen.before < NEAR && (!list.follow || list.whole < 2 * list.clientHeight) && !source.begins(list.lines),
      behind: seen.behind < NEAR && !this.live && !source.ends(list.lines),
      near: seen.behind < NEAR,
    };
  }

  async more() {
    const { list, source, stay } = this;
    if (!stay.settled || stay.loading || this.dragged || this.live?.refused) return; // the rows shown may be of a log that is gone
    const lines = list.lines;
    const lacking = this.lacking();
    try {
      stay.loading = true;
      if (lacking.before) {
        const answer = await stay.got(this.waits(source.earlier(lines, stay.signal), "earlier lines"));
        if (answer) {
          const first = !lines.rows.length;
          list.keep(() => lines.prepend(answer.rows, answer));
          list.draw();
          if (first) this.count();
          const gone = list.follow ? [] : lines.trimTail(); // a list that follows shows its last rows
          source.forgot([], gone);
          if (gone.length) this.behind();
        }
      }
      if (lacking.near && !this.live) {
        const answer = await stay.got(this.waits(source.later(lines, stay.signal), "later lines"));
        if (answer) {
          const first = !lines.rows.length;
          lines.append(answer.rows, answer.left, answer);
          if (first) this.count();
          lines.opens(answer.open);
          if (answer.to !== undefined) lines.to = Math.max(lines.to, answer.to);
          if (!list.selection) list.keep(() => source.forgot(lines.trimHead(12000), []));
          list.draw();
        }
        if (source.ends(lines) && !source.sealed && !this.live) this.listen();
      }
      this.lost("rows", null);
    } catch (error) {
      if (!stay.signal.aborted) this.lost("rows", error, () => this.more());
    } finally {
      stay.loading = false;
    }
  }

  // The live end.

  listen() {
    const { list, source, stay } = this;
    const { side } = this.wanted;
    const streams = source.tails(list.lines);
    const listener = {
      streams: (streams) => this.known(streams),
      rows: (rows) => this.came(rows),
      bars: (k, rows, still) => {
        list.lines.reopen(k, rows, still);
        list.soon();
      },
      at: (places) => source.at(list.lines, places),
      lost: (sentence) => {
        this.lost("tail", sentence && new Refused(0, sentence));
        this.pressed();
      },
      done: () => {
        stay.live = null;
        if (this.stream) source.state.sealed = true;
        else source.sealed = true;
        if (list.follow) list.reveal(list.lines.view().length, 1); // the last rows may not be drawn yet
        list.turn(false);
        this.pressed();
        this.watch();
      },
    };
    stay.live = side ? side.live.join(streams[0], listener) : new Tail(streams, source.wanted?.order ?? "arrival", listener);
    this.pressed();
  }

  came(rows) {
    const { list } = this;
    const late = this.source.begins(list.lines) ? null : [];
    if (this.arriving) for (const row of rows) row.arrived = Date.now();
    let fresh = 0;
    const append = () => (fresh = list.lines.append(rows, [], { live: true, late }));
    const above = list.lines.timed && !list.follow ? list.keep(append) : (append(), 0);
    if (late?.length) this.source.forgot(late, []); // scrolling up requests them, at their place
    if (list.follow) this.source.forgot(list.lines.trimHead(), []);
    else {
      this.fresh += Math.max(0, fresh - above);
      if (list.lines.full) this.behind();
    }
    list.soon();
  }

  /** Stops the stream, because the list no longer holds the end: new rows would not be seen. */
  behind() {
    this.stay.hush();
    this.lost("tail", null);
    this.watch();
  }

  /** Requests the log's length now and then, while no stream tells it: a log that has ended may be removed. */
  watch() {
    const { stay, source } = this;
    const soon = () => stay.later("look", look, source.sealed ? REMOVED : LOOK);
    const look = async () => {
      if (this.live || !this.stream) return;
      try {
        if (document.visibilityState === "visible") await stay.got(this.source.look(stay.signal));
        this.lost("length", null);
        this.list.draw();
      } catch (error) {
        if (!stay.signal.aborted) this.lost("length", error);
      }
      soon();
    };
    soon();
  }

  follow() {
    const { search } = this;
    if (search.listing) search.follow(!search.follows);
    else if (this.list.follow) this.list.turn(false);
    else this.end();
  }

  stopped() {
    this.keep();
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
    const follows = this.search.listing ? this.search.follows : this.list.follow;
    this.following.setAttribute("aria-pressed", String(follows));
    this.following.disabled = over;
    this.following.classList.toggle("waits", this.troubles.has("tail"));
    say(this.following, over ? "Ended" : !follows ? "Follow" : this.troubles.has("tail") ? "Waiting" : "Following");
  }

  known(streams) {
    this.source.streams = streams.map((stream) => ({ run: this.run, ...stream }));
    const most = TAG[Number(matchMedia("(max-width: 40rem)").matches)];
    const named = (site, log) => {
      const logs = streams.filter((stream) => stream.site === site).map(called);
      if (logs.length === 1 && streams.length > 1) return short(site, most);
      const part = apart(logs)[logs.indexOf(log)];
      const room = most - part.length - 1;
      return `${site}/${log}`.length <= most || logs.length === 1 || room < 4 ? short(`${site}/${log}`, most) : `${short(site, room)}/${part}`;
    };
    if (this.stream && streams[0].name && !this.wanted.side) this.dispatchEvent(new CustomEvent("named", { bubbles: true, detail: { ...streams[0], run: this.run } }));
    this.list.titles = streams.map((stream) => `${stream.site}/${called(stream)}`);
    this.list.names = streams.map((stream) => named(stream.site, called(stream)));
    this.list.colours = streams.map(({ site }) => hue(this.source.numbers?.get(site) ?? 0));
    if (!this.stream) {
      this.list.paths = streams.map(({ site, log }) => path(this.run, site, log));
      const widest = Math.max(4, ...this.list.names.map((name) => name.length));
      this.style.setProperty("--tag", `${widest}ch`);
      this.classList.add("tagged");
      const left = this.source.left ? `The first 64 by name are merged, without ${several(this.source.left, "more log")}: choose fewer.` : "";
      const told = [left, this.source.copies].filter(Boolean).join(" ");
      if (told) say(this.told, told);
    }
  }

  /**
   * Shows *error* for requests of the kind *what*; null: the last one was answered. Each kind stands by itself: an answer to
   * one kind does not hide the failure of another. *again* repeats the request, where that may help.
   */
  lost(what, error, again) {
    this.troubles.delete(what);
    if (error) this.troubles.set(what, error);
    const shown = [...this.troubles.values()].pop();
    clearTimeout(this.hiding);
    if (shown) {
      this.trouble.hidden = false;
      tells(this.trouble, /[.!]$/.test(shown.message) ? shown.message : `${shown.message}.`, ASTRAY.includes(shown.status) && (shown.run ? path(this.run) : "/"), shown.run ? "The logs of this run" : "All runs");
    } else this.hiding = setTimeout(() => (this.trouble.hidden = true), UNTROUBLED);
    if (error) history.replaceState({ ...history.state, place: null }, ""); // the place may be in a log that is gone
    if (error && again && RETRIES[error.status]) this.stay.later("again", again, RETRIES[error.status]);
  }
}
