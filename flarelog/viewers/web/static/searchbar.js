/** The bar of a search: its field, its choices, what it found in words, and the list of its hits. */

import { fragment, parsed, put } from "./address.js";
import { path } from "./api.js";
import { frame, h, say } from "./dom.js";
import { painted } from "./paint.js";
import { Search } from "./search.js";
import { called, clock, count } from "./words.js";

const LISTED = 200; // hits that are listed at first
const ANEW = 2000; // ms between two looks for new hits while nothing but hits is shown

let kept = null;

/** The search that continues over the pages of *run*, or a new one. */
export function searchOf(run) {
  const found = kept?.run === run && kept.search.state !== "off" ? kept : document.createElement("search-bar");
  if (found !== kept) kept?.search.turn("closed");
  kept = found;
  return found;
}

export class SearchBar extends HTMLElement {
  from = 0; // the first hit that is listed
  most = LISTED;
  follows = false; // whether the list of nothing but hits stays at its end

  /** @param {string} run  @param {{site: string, log: string}|null} stream the log on the page  @param {object[]|null} streams of a merged page; empty: see `bound`  @param {object|null} range of the page, see `bound` */
  begin(run, stream, streams, range = null) {
    this.search ??= new Search(run, { say: (text) => say(this.said, text), found: () => this.found(), none: () => this.lists(true), show: (hit) => this.show(hit) });
    const { search } = this;
    const only = JSON.stringify(range);
    const moved = this.find?.scope === "log" && (!(stream && search.here(stream)) || this.range !== only);
    Object.assign(this, { run, streams, range: only, early: Boolean(range) || streams?.length === 0 });
    Object.assign(search, { stream, level: "", limits: new Map() });
    if (moved || !stream) search.place = { of: null, at: 0, on: false };
    this.build();
    this.hidden = search.state === "off";
    this.own.hidden = !stream && !streams;
    say(this.own, stream ? "this log" : "these logs");
    if (this.own.hidden && this.scope.value === "log") this.scope.value = "time";
    if (moved) this.ask(false);
    search.tell();
    this.keep();
  }

  connectedCallback() {
    this.timer = setInterval(() => this.only.checked && !document.hidden && this.search.refresh(), ANEW);
  }

  disconnectedCallback() {
    clearInterval(this.timer);
  }

  get find() {
    return this.search?.find ?? null;
  }

  get matcher() {
    return this.search.matcher;
  }

  get hits() {
    return this.search.hits;
  }

  get limits() {
    return this.search.limits;
  }

  /** Searches for what an address names, unless it is searched for already. *goes*: whether to go to the first hit. */
  recall(find, goes) {
    if (!find || JSON.stringify(find) === JSON.stringify(this.find)) return;
    this.input.value = find.text;
    this.regex.checked = find.regex;
    this.ignore.checked = !find.exact;
    this.only.checked = find.only;
    this.field = find.field ? find.text : null;
    this.scope.value = ["run", "time"].includes(find.scope) ? find.scope : this.own.hidden ? "time" : "log";
    this.hidden = false;
    this.showOnly();
    this.ask(goes);
  }

  /** Puts the search into the address, or takes it out. */
  keep() {
    if (this.isConnected || this.search.state !== "off") put(parsed(location.hash).bytes, this.find);
  }

  /** The page knows its logs, *streams* if they are merged, and the bytes of its range: a search that came early begins. */
  bound(streams, bounds) {
    for (const bound of bounds) this.limits.set(...bound);
    if (streams) this.streams = streams.map(({ site, log }) => ({ site, log }));
    if (!this.early) return;
    this.early = false;
    if (this.search.state === "early") this.ask(this.goes);
  }

  /** The page shows rows of *level* alone: searches again, and keeps the page's place. */
  leveled(level) {
    this.search.level = level;
    if (this.search.state !== "off") this.ask(false);
  }

  build() {
    if (this.form) return;
    this.input = h("input", { type: "search", name: "pattern", "aria-label": "Search", placeholder: "Search", autocomplete: "off", autocapitalize: "off", spellcheck: "false", enterkeyhint: "search", maxlength: "1000" });
    this.regex = h("input", { type: "checkbox" });
    this.ignore = h("input", { type: "checkbox", checked: true });
    this.only = h("input", { type: "checkbox", on: { change: () => this.showOnly(true) } });
    this.own = h("option", { value: "log" });
    this.scope = h("select", { "aria-label": "Where to search" }, this.own, h("option", { value: "run" }, "the whole run"), h("option", { value: "time" }, "the whole run by time"));
    this.said = h("output", { class: "found", "aria-live": "polite" });
    this.list = h("ol", { class: "hits", hidden: true, "aria-label": "Lines found", on: { scroll: () => this.follows && !atEnd(this.list) && this.follow(false) } });
    const button = (text, title, act) => h("button", { type: "button", title, "aria-label": title, on: { click: act } }, text);
    this.form = h(
      "form",
      { role: "search", on: { submit: (event) => this.submitted(event) } },
      this.input,
      h("label", { title: "The pattern is a regular expression" }, this.regex, "regex"),
      h("label", { title: "Capital and small letters are alike" }, this.ignore, "ignore case"),
      this.scope,
      button("\u2191 N", "Previous hit (N)", () => this.step(-1)),
      button("\u2193 n", "Next hit (n or Enter)", () => this.step(1)),
      button("List", "List the hits", () => this.lists(this.list.hidden)),
      h("label", { title: "Leave all other lines out" }, this.only, "only hits"),
      this.said,
      button("\u2715", "Close the search (Escape)", () => this.close()),
    );
    this.append(this.form, this.list);
    this.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      this.close();
    });
  }

  lists(shown) {
    this.list.hidden = !shown;
    this.draw();
  }

  /** Shows nothing but hits, or all lines: then at the hit that was shown. */
  showOnly(goes = false) {
    const { search, only } = this;
    this.classList.toggle("only", only.checked);
    if (search.find) search.find = { ...search.find, only: only.checked };
    this.follow(false);
    if (only.checked) this.lists(true);
    else if (goes && search.shown) this.dispatchEvent(new CustomEvent("go", { detail: search.shown }));
    this.keep();
    if (only.checked && search.shown) this.holds(search.shown);
    this.dispatchEvent(new CustomEvent("only"));
  }

  /** Whether the page shows nothing but hits. */
  get listing() {
    return this.only?.checked && !this.hidden;
  }

  /** Keeps the end of the list on the screen, or not. */
  follow(on) {
    if (this.follows === on) return;
    this.follows = on;
    this.draw();
    this.dispatchEvent(new CustomEvent("follow"));
  }

  /** Shows the end of the list, or its beginning. */
  async edge(end) {
    this.follow(false);
    [this.from, this.most] = [end ? Math.max(0, this.hits.all.length - LISTED) : 0, LISTED];
    await this.draw();
    this.list.scrollTop = end ? this.list.scrollHeight : 0;
  }

  /** Lists *hit*. */
  holds(hit) {
    const at = this.hits.all.indexOf(hit);
    if (at < this.from || at >= this.from + 5 * this.most) [this.from, this.most] = [Math.max(0, at - LISTED), 2 * LISTED];
    this.most = Math.max(this.most, at - this.from + 1);
  }

  open() {
    this.hidden = false;
    this.input.focus();
    this.input.select();
  }

  close() {
    this.search.ask({ ...this.typed(), text: "" }, [], false);
    this.field = null;
    this.hidden = true;
    this.only.checked = false;
    this.showOnly();
    say(this.said, "");
    this.lists(false);
    this.dispatchEvent(new CustomEvent("closed"));
  }

  submitted(event) {
    event.preventDefault();
    if (this.find && this.search.hits.count && JSON.stringify(this.typed()) === JSON.stringify(this.find)) return this.step(1);
    this.ask(true);
  }

  typed() {
    return { text: this.input.value, regex: this.regex.checked, exact: !this.ignore.checked, scope: this.scope.value, only: this.only.checked, ...(this.field === this.input.value && !this.regex.checked && !this.ignore.checked && { field: true }) };
  }

  /** *goes*: whether to go to the first hit, if the log on the page has one. */
  ask(goes) {
    const { search } = this;
    const find = this.typed();
    [this.from, this.most] = [0, LISTED];
    say(this.said, "");
    try {
      search.ask(find, find.scope !== "log" ? null : search.stream ? [search.stream] : this.streams, (this.goes = goes), this.early && find.scope === "log");
    } catch (error) {
      say(this.said, error.message);
    }
    this.sought = goes && this.own.hidden;
    this.lists(find.only || (!search.stream && Boolean(find.text)));
    this.keep();
    this.dispatchEvent(new CustomEvent("found"));
    if (!goes || !this.find) return;
    this.input.blur();
    this.dispatchEvent(new CustomEvent("asked"));
  }

  step(direction) {
    this.search.step(direction);
  }

  found() {
    this.draw();
    this.dispatchEvent(new CustomEvent("found"));
  }

  /** Draws the list with the next frame, once. */
  draw() {
    if (!this.list.hidden) this.drawing ??= frame().then(() => {
      this.drawing = null;
      this.fill();
    });
    return this.drawing;
  }

  fill() {
    const { search, most, follows } = this;
    const { hits: { all, sure, sum }, shown } = search;
    if (follows) [this.from, this.most] = [Math.max(0, all.length - LISTED), LISTED];
    const { from } = this;
    const early = all.length > 0 && (!sure || (this.only.checked && (from >= sure || all.indexOf(shown) >= sure))); // some logs are not searched yet
    const listed = all.slice(from, Math.min(from + most, early ? Infinity : sure));
    const left = sum - from - most;
    const more = listed.length === most && left > 0 && this.listsMore(left, 4 * most, () => (this.most *= 5));
    const less = from > 0 && this.listsMore(from, LISTED, (added) => {
      this.from -= added;
      this.most += added;
    }, "earlier");
    const items = [early && h("li", {}, "Not in the order of time yet: some logs are still being searched."), less, ...listed.map((hit) => this.listed(hit)), more];
    this.list.replaceChildren(...items.filter(Boolean));
    search.list(from + most);
    if (follows) this.list.scrollTop = this.list.scrollHeight;
    else this.list.querySelector(".here")?.scrollIntoView({ block: "nearest" });
    if (!this.sought || !all.length) return;
    this.sought = false; // on the page of a run the hits may be below the screen: a phone shows only the findings
    if (this.list.getBoundingClientRect().bottom > innerHeight) this.scrollIntoView();
  }

  /** A button that lists *most* of *left* more hits, of which *grow* is told. */
  listsMore(left, most, grow, what = "more") {
    const added = Math.min(left, most);
    const click = async () => {
      grow(added);
      const { scrollHeight: before } = this.list;
      await this.draw();
      if (what !== "more") this.list.scrollTop += this.list.scrollHeight - before;
    };
    return h("li", {}, h("button", { type: "button", on: { click } }, `List ${count(added)} ${what}`));
  }

  listed(hit) {
    const end = Math.max(hit.end, hit.offset + 1);
    return h(
      "li",
      { class: hit === this.search.shown && "here" },
      h("a", { href: `${path(this.run, hit.site, hit.log)}${fragment([hit.offset, end], this.find && { ...this.find, only: false })}`, on: { click: () => this.context() } },
        h("span", { class: "when" }, Number.isFinite(hit.key) ? clock(hit.key, true) : ""), h("span", { class: "where" }, `${hit.site}/${called(hit)}`), h("span", { class: "what" }, ...painted(hit.text, null, 300))),
    );
  }

  /** A hit of the list is opened among its neighbours. */
  context() {
    this.only.checked = false;
    this.showOnly();
  }

  async show(hit) {
    this.follow(false);
    if (this.only.checked) this.holds(hit);
    else this.dispatchEvent(new CustomEvent("go", { detail: hit }));
    await this.draw();
    if (this.only.checked) this.search.turn("seen");
  }

  /** Called when the page shows *place*. */
  reached(place) {
    if (!this.only.checked) this.search.reached(place);
  }
}

function atEnd({ scrollTop, scrollHeight, clientHeight }) {
  return scrollHeight - clientHeight - scrollTop < 40;
}

customElements.define("search-bar", SearchBar);
