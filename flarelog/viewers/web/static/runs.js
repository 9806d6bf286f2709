/** All runs: their states, sites, sizes, and missing parts. Asked for every two seconds while the tab is visible. */

import { Refused, answers, ask, path, waited } from "./api.js";
import { arrange, differs, h, icon, say } from "./dom.js";
import { bytes, called, lasting, moment, several } from "./words.js";

const EVERY = 2000;
const LATE = 2500; // ms without an answer after which the page says so

/**
 * Calls *look* again and again while the tab is visible, also after it was refused, and *late* while one takes long. *late*
 * gets the name of flarelog web if that does not answer; otherwise flarelog web waits for its receiver. Returns the function
 * that ends it.
 */
export function again(look, every = EVERY, late = null) {
  let timer;
  let over = false;
  const next = async () => {
    clearTimeout(timer);
    if (over || document.visibilityState === "hidden") return;
    let waits = true;
    const waiting = late && setTimeout(async () => {
      const who = (await answers()) ? undefined : "flarelog web";
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

/** Shows *error* in *place*, which is hidden when *error* is null. What does not exist leads on to *href*, if given. */
export function trouble(place, error, href = null, name = "") {
  if (error && !(error instanceof Refused)) throw error;
  place.hidden = !error;
  if (error) tells(place, `${error.message}${error.status === 0 ? "; trying again" : ""}.`.replace(/\.\.$/, "."), error.status === 404 && href, name);
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
  connectedCallback() {
    this.rows = new Map();
    this.trouble = h("p", { class: "trouble", role: "alert", hidden: true });
    this.body = h("div", { class: "body", role: "rowgroup" });
    this.empty = h("p", { class: "empty", hidden: true });
    const names = ["Run", "State", "Sites", "Logs", "Bytes", "Missing", "Last byte"];
    this.append(
      h("h1", {}, "Runs"), this.trouble,
      h("div", { class: "table runs", role: "table", "aria-label": "Runs" },
        h("div", { class: "head", role: "rowgroup" }, h("div", { class: "line", role: "row" }, ...names.map((name) => h("span", { role: "columnheader" }, name)))), this.body),
      this.empty,
    );
    this.stop = again(() => this.look(), EVERY, (who) => this.late(who));
  }

  disconnectedCallback() {
    this.stop();
  }

  async look() {
    try {
      this.record = await waited(ask("/api/runs"), () => this.record || shows(this.empty, "Waiting for the runs \u2026"));
      trouble(this.trouble, null);
      this.draw(false);
    } catch (error) {
      if (!this.record) this.empty.hidden = true;
      this.draw(true);
      trouble(this.trouble, error);
    }
  }

  late(who = "The receiver") {
    silence(this.trouble, who);
    this.draw(true);
  }

  /** *away*: nothing is known of now. */
  draw(away) {
    if (!this.record) return;
    const { runs, now, some } = this.record;
    if (!runs.length && !this.empty.firstElementChild) this.empty.replaceChildren(...nothing(some));
    this.empty.hidden = runs.length > 0;
    const kept = new Map();
    for (const each of runs.slice(0, 1000)) {
      const run = away ? { ...each, state: past(each.state), standing: past(each.standing) } : each;
      const text = JSON.stringify(run);
      const row = this.rows.get(run.run);
      kept.set(run.run, row?.text === text && run.grown === null ? row : this.row(run, now, text));
    }
    this.rows = kept;
    arrange(this.body, [...kept.values()]);
  }

  row(run, now, text) {
    const old = this.rows.get(run.run);
    const node = old ?? h("div", { class: "line", role: "row" });
    if (!old) {
      node.link = h("a", { href: path(run.run) }, h("bdi", {}, called({ log: run.run })));
      node.cells = Array.from({ length: 6 }, () => h("span", { role: "cell" }));
      node.append(h("span", { role: "rowheader", class: "name" }, node.link), ...node.cells);
    }
    node.text = text;
    const [state, sites, logs, size, missing, grown] = node.cells;
    if (differs(state, `${run.standing}${run.state}`)) state.replaceChildren(icon(run.standing), run.state);
    state.className = "state";
    say(sites, several(run.sites, "site"));
    say(logs, several(run.logs, "log"));
    say(size, bytes(run.bytes));
    const gone = [run.gaps && several(run.gaps, "gap"), run.unseen && several(run.unseen, "unseen end"), run.unstored && several(run.unstored, "log")].filter(Boolean);
    say(missing, gone.join(", ") || "\u2013");
    missing.className = gone.length ? "missing" : "none";
    say(grown, run.grown ? `${lasting(now - run.grown)} ago` : "\u2013");
    if (run.grown) grown.title = `${moment(run.grown)} UTC`;
    return node;
  }
}

customElements.define("runs-page", RunsPage);
