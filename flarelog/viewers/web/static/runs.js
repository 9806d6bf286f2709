/**
 * All runs: their states, first errors, missing parts, progress and sizes, a page at a time. The server chooses and sorts
 * them; it is asked every two seconds while the tab is visible.
 */

import { EITHER, Refused, answers, ask, path, waited } from "./api.js";
import { arrange, differs, h, icon, say } from "./dom.js";
import { meter } from "./paint.js";
import { bytes, called, count, lasting, moment, several, zone } from "./words.js";

const RUNS_EVERY = 2000;
const SOON = 300; // ms until what the server was still looking at is asked for again
const PAGE = 100; // runs, as the server cuts the list
const USUAL = "state"; // the column by which the list is sorted at first
// The columns, and what the server calls them; true: the first press sorts upwards.
const COLUMNS = [["Run", "run", true], ["State", "state", true], ["First error", "error", true], ["Missing", "missing"], ["Progress", "progress"], ["Sites", "sites"], ["Bytes", "bytes"], ["Last byte", "last"]];
const STANDINGS = { "": "All runs", going: "Running", bad: "In trouble", over: "Ended" };
const LATE = 2500; // ms without an answer after which the page says so

/**
 * Calls *look* again and again while the tab is visible, also after it was refused, and *late* while one takes long. *late*
 * gets EITHER if flarelog web does not answer in time; otherwise flarelog web waits for its receiver. Returns the function
 * that ends it.
 */
export function again(look, every = RUNS_EVERY, late = null) {
  let timer;
  let over = false;
  const next = async () => {
    clearTimeout(timer);
    if (over || document.visibilityState === "hidden") return;
    let waits = true;
    const waiting = late && setTimeout(async () => {
      const who = (await answers()) ? undefined : EITHER;
      if (waits && !over) late(who);
    }, LATE);
    try {
      await look();
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
    }
    waits = false;
    clearTimeout(waiting);
    clearTimeout(timer);
    if (!over) timer = setTimeout(next, every);
  };
  document.addEventListener("visibilitychange", next);
  next();
  return () => {
    over = true;
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", next);
  };
}

/** Shows *sentence* in *place*, which may be hidden. */
export function shows(place, sentence) {
  place.hidden = false;
  say(place, sentence);
}

/** Shows in *place* that *who* does not answer, unless an error is shown there. */
export function silence(place, who) {
  if (place.hidden) trouble(place, new Refused(0, `${who} does not answer`));
}

/** The statuses of what does not exist, and of an address that somebody typed: another page may help. */
export const ASTRAY = [400, 404, 410];

/** Shows *error* in *place*, which is hidden when *error* is null. An error of ASTRAY leads on to *href*, if given. */
export function trouble(place, error, href = null, name = "") {
  if (error && !(error instanceof Refused)) throw error;
  place.hidden = !error;
  if (error) tells(place, `${error.message}${error.status === 0 ? "; trying again" : ""}.`.replace(/\.\.$/, "."), ASTRAY.includes(error.status) && href, name);
}

/** Shows *sentence* in *place*, with a link to *href*, if that is given; a screen reader notices what is shown again. */
export function tells(place, sentence, href, name) {
  const text = href ? `${sentence} ${name}` : sentence;
  if (place.textContent !== text) place.replaceChildren(sentence, ...(href ? [" ", h("a", { href }, name)] : []));
}

/** The state of a run, or of a log, as it is shown while nothing is known of now: *is*, or open. */
export function past(is) {
  return PRESENT.has(is) ? "open" : is;
}

const PRESENT = new Set(["running", "idle", "live", "busy", "quiet", "waiting", "hung", "gone", "silent", "paused", "lost link"]);

/** The text where no run is listed. *some*: the login may be for some runs alone, and the receiver does not tell which. */
function nothing(some) {
  if (some) return [h("span", {}, "There is no run that this login may read: none is stored yet, or the login is for other runs.")];
  return ["No run is stored here yet. ", h("code", {}, "flarelog run -- COMMAND"), " sends the first one."];
}

export class RunsPage extends HTMLElement {
  /** *search*: the part of the address that says which runs are wanted, and in which order. */
  begin(search) {
    this.wanted = new URLSearchParams(search);
    return this;
  }

  connectedCallback() {
    this.rows = new Map();
    this.seen = new Set(); // the runs that were on the screen: of these alone it is said that they were removed
    this.trouble = h("p", { class: "trouble", role: "alert", hidden: true });
    this.astray = h("p", { class: "trouble", role: "alert", hidden: true }); // in the place of the list, so that nothing moves
    this.sum = h("p", { class: "sum", role: "status" });
    this.filter = h("input", { type: "search", "aria-label": "Show runs that contain", placeholder: "Run, job or error", value: this.wanted.get("find"), on: { input: () => this.want({ find: this.filter.value }) } });
    this.only = h("select", { "aria-label": "Standing", on: { change: () => this.want({ only: this.only.value }) } }, ...Object.entries(STANDINGS).map(([value, name]) => h("option", { value, selected: value === this.wanted.get("only") }, name)));
    this.heads = COLUMNS.map(([name, key]) => h("span", { role: "columnheader", class: key }, h("button", { type: "button", class: "quiet", on: { click: () => this.sort(key) } }, name)));
    this.body = h("div", { class: "body", role: "rowgroup" });
    this.empty = h("p", { class: "empty", hidden: true });
    this.every = h("button", { type: "button", on: { click: () => this.all() } }, "Show all runs");
    this.pages = [this.pager(), this.pager()];
    this.append(
      h("div", { class: "title" }, h("h1", {}, "Runs"), this.sum), this.trouble,
      h("div", { class: "tools" }, this.filter, this.only, h("span", { class: "spring" }), this.pages[0]),
      h("div", { class: "table runs", role: "table", "aria-label": "Runs" },
        h("div", { class: "head", role: "rowgroup" }, h("div", { class: "line", role: "row" }, ...this.heads)), this.body),
      this.astray, this.empty, h("div", { class: "tools" }, this.pages[1]),
    );
    this.stop = again(() => this.look(), RUNS_EVERY, (who) => this.late(who));
  }

  disconnectedCallback() {
    this.stop();
    clearTimeout(this.soon);
  }

  pager() {
    const turn = (by, name) => h("button", { type: "button", on: { click: () => { this.want({ page: this.record.page + by }); this.scrollIntoView(); } } }, name);
    const nav = h("nav", { class: "pages", "aria-label": "Pages", hidden: true });
    nav.append((nav.before = turn(-1, "Previous")), (nav.text = h("span")), (nav.behind = turn(1, "Next")));
    return nav;
  }

  /** Asks for other runs: *changes* to what is wanted, which begins at its first page. */
  want(changes) {
    this.put({ page: "", ...changes });
    this.look();
  }

  /** Puts *changes* to what is wanted into the address, so that a colleague sees the same. */
  put(changes) {
    for (const [name, value] of Object.entries(changes)) value ? this.wanted.set(name, value) : this.wanted.delete(name);
    const text = String(this.wanted);
    history.replaceState(history.state, "", `/${text && "?"}${text}${location.hash}`);
  }

  all() {
    this.filter.value = this.only.value = "";
    this.want({ find: "", only: "" });
    this.filter.focus();
  }

  sort(key) {
    const turned = (this.wanted.get("sort") || USUAL) === key;
    this.want({ sort: turned ? `-${key}` : key === USUAL ? "" : key });
  }

  async look() {
    const wanted = String(this.wanted);
    try {
      const record = await waited(ask(`/api/runs?${wanted}`), () => this.record || this.waits());
      if (this.left(wanted)) return;
      this.record = record;
      clearTimeout(this.soon);
      if (record.looking) this.soon = setTimeout(() => this.look(), SOON);
      this.trouble.hidden = this.astray.hidden = true;
      this.draw(false);
    } catch (error) {
      if (this.left(wanted)) return;
      if (error.status === 400) this.record = null; // somebody typed the address
      if (!this.record) {
        this.empty.hidden = true;
        arrange(this.body, []);
      }
      this.draw(true);
      trouble(error.status === 400 ? this.astray : this.trouble, error, "/", "All runs");
    }
  }

  waits() {
    shows(this.empty, "Waiting for the runs \u2026");
    differs(this.empty, "");
  }

  /** Whether somebody wants something else than *wanted* now, or left the page. */
  left(wanted) {
    return !this.isConnected || wanted !== String(this.wanted);
  }

  late(who = "The receiver") {
    silence(this.trouble, who);
    this.draw(true);
  }

  /** *away*: nothing is known of now. */
  draw(away) {
    if (!this.record) return;
    const { runs, now, page, matching, total, going, bad, partly, gone, some } = this.record;
    if (page !== (Number(this.wanted.get("page")) || 1)) this.put({ page: page > 1 && page });
    const lost = gone.filter((run) => this.seen.has(run)).map((run) => called({ log: run }));
    const more = lost.length > 3 ? " and others" : "";
    const removed = lost.length ? `${lost.slice(0, 3).join(", ")}${more} ${lost.length > 1 ? "were" : "was"} removed.` : "";
    const running = away ? "" : ` ${count(going)} running,`;
    say(this.sum, total ? `${several(total, "run")}:${running} ${count(bad)}${partly ? "+" : ""} in trouble. ${removed}` : removed);
    this.empty.hidden = runs.length > 0;
    if (!runs.length && differs(this.empty, String(total > 0))) this.empty.replaceChildren(...(total ? ["No run matches. ", this.every] : nothing(some)));
    const sorted = this.wanted.get("sort") || USUAL;
    this.heads.forEach((head, at) => {
      const [, key, upwards] = COLUMNS[at];
      if (sorted.replace(/^-/, "") === key) head.setAttribute("aria-sort", Boolean(upwards) === (sorted === key) ? "ascending" : "descending");
      else head.removeAttribute("aria-sort");
    });
    for (const nav of this.pages) {
      nav.hidden = matching <= PAGE;
      nav.before.disabled = page < 2;
      nav.behind.disabled = page * PAGE >= matching;
      say(nav.text, `${count((page - 1) * PAGE + 1)}\u2013${count(Math.min(page * PAGE, matching))} of ${count(matching)}`);
    }
    this.rows = new Map(runs.map((each) => [each.run, this.row(away ? { ...each, state: past(each.state), standing: past(each.standing) } : each, now)]));
    arrange(this.body, [...this.rows.values()]);
  }

  row(run, now) {
    const node = this.rows.get(run.run) ?? h("div", { class: "line", role: "row" });
    if (!node.cells) {
      node.cells = COLUMNS.slice(1).map(([, key]) => h("span", { role: "cell", class: key }));
      node.append(h("span", { role: "rowheader", class: "name" }, h("a", { href: path(run.run) }, h("bdi", {}, called({ log: run.run })))), ...node.cells);
      this.seen.add(run.run);
    }
    const [state, error, missing, progress, sites, size, last] = node.cells;
    const over = ["sealed", "ended"].includes(run.state);
    const word = !run.failed ? run.state : over ? "failed" : `${run.state}, failed`;
    if (differs(state, `${run.standing} ${word}`)) state.replaceChildren(icon(run.standing), word);
    state.title = run.failed ? `${several(run.failed, "command")} failed` : "";
    const found = run.error;
    if (differs(error, JSON.stringify(found ?? null))) error.replaceChildren(...(found ? [icon("failed"), h("a", { href: `${path(run.run, found.site, found.log)}#bytes=${found.offset}-${found.end}`, title: `${found.site}/${called(found)}: ${found.text}` }, h("bdi", {}, found.text))] : []));
    const [words = "", share = null] = run.progress ?? [];
    if (differs(progress, `${words} ${share}`)) {
      progress.title = words;
      progress.replaceChildren(share === null ? "" : meter(share), words);
    }
    const gaps = run.gaps && several(run.gaps, "gap");
    say(missing, [run.lost ? `${bytes(run.lost)} in ${gaps}` : gaps, run.doubts, run.unstored && several(run.unstored, "log")].filter(Boolean).join(", "));
    say(sites, `${several(run.sites, "site")}, ${several(run.logs, "log")}`);
    say(size, bytes(run.bytes));
    say(last, run.grown ? `${lasting(now - run.grown)} ago` : "");
    if (run.grown) last.title = `${moment(run.grown)} ${zone(run.grown)}`;
    return node;
  }
}

customElements.define("runs-page", RunsPage);
