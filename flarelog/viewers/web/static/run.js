/**
 * One run: its first error, and a row for each site: its standing in words and a shape, its bars, its last line. A site
 * with several logs unfolds to a row for each log.
 */

import { fragment, parsed } from "./address.js";
import { answered, ask, path, query, read, waited } from "./api.js";
import { Chosen } from "./chosen.js";
import { Curves } from "./curves.js";
import { arrange, differs, frame, h, icon, kind, say } from "./dom.js";
import { Lanes } from "./lanes.js";
import { help, listen } from "./keys.js";
import { Machines } from "./machines.js";
import { hue, meter } from "./paint.js";
import { searchOf } from "./searchbar.js";
import { reordered } from "./order.js";
import { again, past, shows, silence, trouble } from "./runs.js";
import { set, setting } from "./settings.js";
import { archive, report } from "./taking.js";
import { bytes, called, count, moment, several, skew, zone } from "./words.js";

const SITES_SHOWN = 200; // sites that are shown at first
const PLACES = 12; // places that are shown of equal findings
const FINDING_KINDS = 6; // kinds of findings that are named while the findings are folded
const UNFOLDED = 2; // different findings that are unfolded at first: more would push the sites off the screen
const SLOWER = 10_000; // ms between two requests for errors and findings
const AWAITED = 150; // ms that the sites wait for errors and findings: later ones get no more room than is kept for them
const CALM = 10_000; // ms without a key or a movement, after which nobody is about to press a row: rows may move
const LASTS_SOON = 300; // ms until last lines that are still being read are asked for again
const FOUND = 20; // logs that the filter finds in a site at most so that they are shown without a press
const AT_FIRST = 50; // ms until an unfinished list is asked for again, twice as long each time

/** What the visitor left on the page of a run, to find it again: its name, its order of sites, the opened ones, the findings. */
let left = {};

/** The logs of *site*, with those that are not stored and cannot be opened. */
const logsOf = (site) => [...site.streams, ...(site.unstored ?? [])];
/** *one*, a site or a log, as it is shown while nothing is known of now. */
const earlier = (one) => (one.lasting === undefined ? one : { ...one, standing: past(one.standing), words: one.lasting || "open", now: null, rate: 0 });
/** *text*, a line, without the date that it begins with. */
const undated = (text) => text.replace(/^\d{4}-\d\d-\d\d[ T]/, "");
const has = (rank) => rank !== null && rank !== undefined;
const many = (site) => logsOf(site).length;

export class RunPage extends HTMLElement {
  begin(run, site, hash) {
    Object.assign(this, { run, site: site ?? "", hash });
    return this;
  }

  connectedCallback() {
    this.left = new AbortController(); // the search outlives this page
    this.rows = new Map();
    if (left.run !== this.run) left = { run: this.run, opened: new Set(), order: null, marks: {}, first: null, findings: null };
    this.opened = left.opened;
    this.most = SITES_SHOWN;
    this.listed = AT_FIRST;
    this.begun = false; // the slow requests
    this.trouble = h("p", { class: "trouble", role: "alert", hidden: true });
    this.sum = h("p", { class: "sum", role: "status" });
    this.missing = h("ul", { class: "missing", "aria-label": "What is not stored", hidden: true });
    this.chosen = new Chosen(this.run);
    this.marks = left.marks;
    this.first = this.room("first", "First error", h("div"), (this.jump = h("a", { class: "button main", hidden: true }, "Show it (e)")));
    this.findings = this.room("findings", "Findings", h("ul"));
    this.wrongs = h("div", { class: "wrongs", hidden: true }, this.first, this.findings);
    this.lanes = new Lanes(this.run);
    this.lanes.hidden = true;
    this.filter = h("input", { type: "search", "aria-label": "Show sites and logs that contain", placeholder: "Site or log", value: setting("sites") || this.site, on: { input: () => this.choose("sites", this.filter.value) } });
    this.only = h("select", { "aria-label": "Standing", on: { change: () => this.choose("standing", this.only.value) } }, h("option", { value: "" }, "All sites"), h("option", { value: "bad" }, "In trouble"), h("option", { value: "open" }, "Not ended"));
    this.only.value = setting("standing");
    this.curves = new Curves(this.run, () => this.draw());
    this.body = h("div", { class: "body", role: "rowgroup" });
    this.empty = h("p", { class: "empty", hidden: true });
    this.more = h("button", { type: "button", class: "more", hidden: true, on: { click: () => this.all() } });
    const names = [["Site"], ["Standing"], ["Last line"], ["Bytes"], ["Bytes/s"], ["Clock", "How far the clock of the site is ahead of the clock of the receiver"], ["Missing", "Known losses (gaps), and files whose ends were not seen"]];
    const base = path(this.run);
    this.search = searchOf(this.run);
    this.search.begin(this.run, null, null);
    this.append(
      h("div", { class: "title" }, h("h1", {}, h("bdi", {}, this.run)), this.sum),
      this.trouble, this.missing, this.wrongs, this.lanes,
      (this.tools = h("div", { class: "tools", hidden: true }, this.filter, this.only, this.curves.select, h("span", { class: "spring" }),
        h("button", { type: "button", title: "Search all logs (/)", on: { click: () => this.search.open() } }, "Search"),
        h("a", { class: "button", href: `${base}?merged=time` }, "All logs by time"), h("a", { class: "button", href: `${base}?merged=arrival` }, "All logs by arrival"),
        (this.ranked = h("a", { class: "button", hidden: true, href: `${base}?merged=time&rank=0` }, "Rank 0 of each site")),
        archive(this.run), report(this.run), h("button", { type: "button", title: "Keys (?)", "aria-label": "Keys", on: { click: help } }, "?"))),
      this.search,
      (this.table = h("div", { class: "table sites", hidden: true, role: "table", "aria-label": `Sites of ${this.run}` },
        h("div", { class: "head", role: "rowgroup" }, h("div", { class: "line", role: "row" }, ...names.map(([name, title]) => h("span", { role: "columnheader", title }, name)))), this.body)),
      this.empty, this.more, (this.below = document.createComment("machines")), this.chosen.bar,
    );
    this.tellFirst(left.first ?? { found: null, looked: false });
    this.tellFindings(left.findings ?? [], left.first?.looked);
    this.stop = [again(() => this.look(), undefined, (who) => this.late(who))];
    this.search.addEventListener("go", ({ detail: { site, log, offset, end } }) => {
      this.dispatchEvent(new CustomEvent("visit", { bubbles: true, detail: `${path(this.run, site, log)}${fragment([offset, Math.max(end, offset + 1)], this.search.find)}` }));
    }, { signal: this.left.signal });
    const { find } = parsed(this.hash);
    if (find) this.search.recall(find, false);
    else if (this.search.find) this.search.close();
    const jump = () => this.jump.href && this.jump.click();
    this.unkey = listen({ "/": () => this.search.open(), n: () => this.search.step(1), N: () => this.search.step(-1), Enter: () => this.search.step(1), Escape: () => this.search.close(), e: jump, E: jump });
    for (const what of ["pointermove", "pointerdown", "keydown", "wheel", "touchmove"]) addEventListener(what, () => (this.touched = performance.now()), { signal: this.left.signal, passive: true });
  }

  disconnectedCallback() {
    for (const stop of this.stop) stop();
    this.left.abort();
    clearTimeout(this.reading);
    this.unkey();
  }

  async look() {
    try {
      const headers = this.etag ? { "If-None-Match": this.etag } : {};
      const asked = answered(`/api/run?${query({ run: this.run, so_far: this.record?.sites.length ?? 0 })}`, undefined, { headers });
      const response = await waited(asked, () => this.record || shows(this.empty, "Waiting for the sites \u2026"));
      trouble(this.trouble, null);
      this.leave(false);
      if (response.status === 304) return void (this.sorted || !this.calm || this.draw());
      const record = await read(response);
      clearTimeout(this.reading);
      this.listed = record.listing ? Math.min(2 * this.listed, SLOWER) : AT_FIRST;
      if ((record.listing || record.reading) && this.isConnected) this.reading = setTimeout(() => this.look(), record.listing ? this.listed : LASTS_SOON);
      if (record.listing && (this.etag || !record.sites.length)) return; // the page shows more than that already
      if (!record.listing) await this.errors();
      this.record = record;
      this.etag = response.headers.get("ETag");
      this.draw();
      if (!record.listing) this.whole();
    } catch (error) {
      if (!this.record) this.empty.hidden = true;
      if (error.status === 404) this.gone();
      this.leave(true);
      trouble(this.trouble, error, "/", "All runs");
    }
  }

  late(who = this.record?.receiver ?? "The receiver") {
    silence(this.trouble, who);
    this.leave(true);
  }

  /** Shows the last answer: *away*: without what it told of its moment. */
  leave(away) {
    if (this.away === away) return;
    this.away = away;
    this.draw();
  }

  /** The run was removed: hides what the page shows of it. */
  gone() {
    this.record = this.etag = null;
    delete this.missing.dataset.is;
    left = {};
    say(this.sum, "");
    for (const part of [this.tools, this.table, this.more, this.missing, this.wrongs, this.lanes]) part.hidden = true;
  }

  /** Asks for errors and findings from now on. */
  async errors() {
    if (this.stop.length > 1 || !this.isConnected) return;
    const told = new Promise((done) => this.stop.push(again(() => this.wrong().then(done), SLOWER)));
    await Promise.race([told, new Promise((done) => setTimeout(done, AWAITED))]);
  }

  /** Starts the slow requests once the sites are on the screen. */
  async whole() {
    if (this.begun) return;
    this.begun = true;
    await frame();
    if (!this.isConnected) return;
    this.lanes.begin();
    this.stop.push(this.curves.begin());
    this.below.replaceWith(new Machines(this.run));
  }

  // Errors and findings.

  async wrong() {
    const wanted = query({ run: this.run });
    const [first, findings] = await Promise.all([ask(`/api/first-error?${wanted}`), ask(`/api/findings?${wanted}`)].map((asked) => asked.catch(() => null)));
    if (first) this.tellFirst((left.first = first));
    if (findings) this.tellFindings((left.findings = findings.findings), first?.looked);
    this.marks = left.marks = findings?.marks ?? this.marks;
    this.draw();
    clearTimeout(this.sooner);
    if ((first?.looking || findings?.looking) && this.isConnected) this.sooner = setTimeout(() => this.wrong(), 1500);
  }

  /**
   * A place above the sites for *list*, under a line that is always there. It is unfolded only before the sites are shown:
   * what comes later does not push them down.
   */
  room(name, label, list, ...more) {
    const part = h("section", { class: name, "aria-label": label });
    Object.assign(part, { list, told: h("h2"), brief: h("span", { class: "brief" }) });
    part.fold = h("details", {}, h("summary", { on: { click: () => (list.style.blockSize = "") } }, part.told, part.brief), list);
    part.append(part.fold, ...more);
    return part;
  }

  /** Fills *part*: the line with *shape*, *title* and *brief*, and below it *items*; *open*: it begins unfolded. */
  fillRoom(part, shape, title, brief, items, open) {
    if (this.table.hidden) part.fold.open = open;
    else if (part.fold.open) part.list.style.blockSize = `${part.list.offsetHeight}px`;
    part.classList.toggle("nothing", !items.length);
    part.told.replaceChildren(shape, title);
    say(part.brief, brief);
    part.list.replaceChildren(...items.filter(Boolean));
  }

  tellFirst({ found, looked }) {
    if (!differs(this.first, found ? `${found.id} ${found.offset} ${found.count}` : String(looked))) return;
    this.first.dataset.id = found?.id ?? "";
    this.jump.hidden = !found;
    if (!found) return this.fillRoom(this.first, icon(looked ? "complete" : "open"), looked ? "No error found" : "Looking for errors \u2026", looked ? "No line looks like an error." : "in all logs", []);
    const { site, log } = found.stream;
    const where = h("bdi", {}, `${site}/${called(found.stream)}`);
    this.first.dataset.told = `${found.meaning ?? ""} ${found.action ?? ""}`.trim();
    this.jump.href = this.linesOf(found.kind, site, log, found.offset, found.end);
    this.fillRoom(this.first, icon("failed"), "First error of all sites", `${site}: ${found.text}`, [
      h("p", { class: "where" }, where, found.time ? ` at ${moment(found.time)} ${zone(found.time)}` : "", `, byte ${count(found.offset)}`, found.count > 1 ? ` (${count(found.count)} times)` : ""),
      h("p", { class: "what" }, found.text),
      found.meaning && h("p", { class: "meaning" }, found.meaning, found.action && ` ${found.action}`),
    ], true);
  }

  tellFindings(findings, looked) {
    const others = findings.filter((one) => one.id !== this.first.dataset.id);
    if (!differs(this.findings, `${looked} ${JSON.stringify(others)}`)) return;
    const more = this.first.dataset.id ? "more finding" : "finding";
    const alike = new Map(); // many ranks report the same: it is shown once, with all its places
    this.advised = new Set([this.first.dataset.told]); // advice is shown once
    for (const one of others.slice(0, 200)) {
      const same = JSON.stringify([one.event_name, one.body, one.meaning, one.action]);
      alike.set(same, [...(alike.get(same) ?? []), one]);
    }
    const kinds = new Map();
    for (const { event_name: kind } of others) kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
    const names = [...kinds].slice(0, FINDING_KINDS).map(([kind, times]) => (times > 1 ? `${kind} (${count(times)} times)` : kind));
    const rest = kinds.size > FINDING_KINDS ? ` and ${several(kinds.size - FINDING_KINDS, "more kind")}` : "";
    this.fillRoom(this.findings, others.length ? icon("incomplete") : "", others.length ? several(others.length, more) : looked ? `No ${more}s` : "Findings",
      `${names.join(", ")}${rest}`, [...alike.values()].slice(0, 50).map((ones) => this.finding(ones)), alike.size > 0 && alike.size <= UNFOLDED);
  }

  /** The list item for *ones*, which are equal findings. */
  finding(ones) {
    const [one] = ones;
    const told = `${one.meaning ?? ""} ${one.action ?? ""}`.trim();
    const advice = !this.advised.has(told) && this.advised.add(told);
    const places = ones.slice(0, PLACES).flatMap((each, at) => [at ? ", " : " in ", this.where(each)]);
    const more = ones.length > PLACES ? ` and ${several(ones.length - PLACES, "more place")}` : "";
    return h("li", {}, h("p", {}, h("b", {}, one.event_name ?? ""), ...places, more),
      one.body && h("p", { class: "what" }, one.body.slice(0, 500)), advice && h("p", { class: "meaning" }, told));
  }

  where(one) {
    const href = one.log ? this.linesOf(one.event_name, one.site, one.log, one.offset, one.offset + Math.max(1, one.length)) : null;
    const name = h("bdi", {}, one.log ? `${one.site}/${called(one)}` : (one.site ?? ""));
    return h("span", {}, href ? h("a", { href }, name) : name, one.count > 1 ? ` (${count(one.count)} times)` : "");
  }

  // The sites.

  /** The logs of *site* that the filter names, or all where it names the site. */
  named(site) {
    const name = this.filter.value.trim().toLowerCase();
    return site.site.toLowerCase().includes(name) ? logsOf(site) : logsOf(site).filter((one) => [one.log, called(one)].some((each) => each.toLowerCase().includes(name)));
  }

  wanted(sites) {
    return sites
      .filter((site) => this.named(site).length)
      .filter((site) => !this.only.value || (this.only.value === "bad" ? ["bad", "warn"].includes(kind(site.standing)) || this.marks[site.site]?.cause : site.lasting !== undefined));
  }

  get calm() {
    return performance.now() - this.touched > CALM && !this.body.contains(document.activeElement) && !this.body.matches(":hover");
  }

  /**
   * *sites*, the worst first. One whose own standing has changed goes to another place, but not while somebody may be about to
   * press a row; the others stay where they are.
   */
  ordered(sites, freely) {
    this.touched ??= performance.now();
    const place = (site) => Math.min(site.place, this.marks[site.site]?.place ?? Infinity);
    const { order, sorted } = reordered(freely ? null : left.order, sites.map((site) => [site.site, place(site)]), this.calm);
    Object.assign(this, { sorted });
    left.order = order;
    return sites.toSorted((a, b) => order.get(a.site).at - order.get(b.site).at);
  }

  /** *freely*: the visitor has just asked for other rows, so that they may move. */
  draw(freely = false) {
    if (!this.record) return;
    const { state, listing, listed, counts, missing = [] } = this.record;
    const sites = this.away ? this.record.sites.map((site) => ({ ...earlier(site), streams: site.streams.map(earlier), unstored: site.unstored?.map(earlier) })) : this.record.sites;
    const told = JSON.stringify(missing);
    const every = this.ordered(sites, freely);
    if ((this.sorted || !this.complete) && differs(this.missing, told)) {
      this.missing.hidden = !missing.length;
      this.missing.replaceChildren(...missing.map((one) => h("li", {}, icon("incomplete"), Array.isArray(one) ? h("a", { href: this.linesOf("loss", ...one.slice(1)) }, one[0]) : one)));
    }
    this.complete ||= !listing;
    if (!listing) this.chosen.keep(sites);
    const sums = new Map();
    for (const [name, number] of listing ? [] : counts) sums.set(this.away ? past(name) : name, (sums.get(this.away ? past(name) : name) ?? 0) + number);
    const parts = [...sums].map(([name, number]) => `${count(number)} ${name}`);
    say(this.sum, `${this.away ? `last known: ${past(state)}` : state}: ${several(listed ?? sites.length, "site")}${listing ? " so far" : ""}${parts.length ? `: ${parts.join(", ")}` : ""}`);
    const wanted = this.wanted(every);
    const nodes = [];
    const kept = new Map();
    const before = this.rows;
    const take = (name, make) => {
      const node = before.get(name) ?? make();
      kept.set(name, node);
      nodes.push(node);
      return node;
    };
    for (const site of wanted.slice(0, this.most)) {
      this.show(take(site.site, () => this.row()), site);
      if (logsOf(site).length > 1 && this.isOpen(site)) for (const one of this.named(site)) this.showLog(take(`${site.site}/${one.log}`, () => this.row("log")), site, one);
    }
    this.rows = kept;
    arrange(this.body, nodes);
    this.tools.hidden = this.table.hidden = this.lanes.hidden = this.wrongs.hidden = false;
    this.ranked.hidden = !sites.some(({ streams }) => streams.some(({ rank }) => rank === 0));
    this.empty.hidden = wanted.length > 0;
    say(this.empty, sites.length ? "No site matches." : "No site has sent a byte yet, or all logs of this run were removed.");
    this.more.hidden = wanted.length <= this.most;
    say(this.more, `Show ${several(wanted.length - this.most, "more site")}`);
    this.lanes.order(wanted.slice(0, this.most));
  }

  /** Shows other sites; the address keeps the choice. */
  choose(name, value) {
    set(name, value);
    this.draw(true);
  }

  all() {
    this.most = Infinity;
    this.draw();
  }

  isOpen(site) {
    return this.opened.has(site.site) || this.site === site.site || this.named(site).length < Math.min(FOUND, logsOf(site).length);
  }

  row(extra = "") {
    const node = h("div", { class: `line ${extra}`, role: "row" });
    node.name = h("span", { role: "rowheader", class: "name" });
    node.cells = ["state", "last", "bytes", "rate", "skew", "missing"].map((name) => h("span", { role: "cell", class: name }));
    node.cells[1].append((node.lines = h("span", { class: "lines" })), (node.found = h("span", {})));
    node.append(node.name, ...node.cells);
    return node;
  }

  show(node, site) {
    const all = many(site);
    const single = all === 1;
    node.name.style.setProperty("--hue", hue(site.number));
    if (differs(node, `${all} ${site.streams.length} ${this.isOpen(site)}`)) {
      const link = h(site.streams.length ? "a" : "span", { href: !site.streams.length ? null : single ? path(this.run, site.site, site.streams[0].log) : `${path(this.run)}?merged=time&${query({ site: site.site })}` }, h("bdi", {}, site.site));
      const toggle = !single && h("button", { type: "button", class: "quiet", "aria-expanded": String(this.isOpen(site)), on: { click: () => this.turn(site.site) } }, several(all, "log"));
      const box = site.streams.length > 0 && this.chosen.box(site.site, site.streams.map(({ log }) => ({ site: site.site, log })));
      node.name.replaceChildren(box || "", link, ...(single ? [h("small", {}, h("bdi", {}, called(logsOf(site)[0])))] : [toggle]));
    }
    const latest = site.streams.filter((one) => one.last && !one.copy).reduce((best, one) => ((one.grown ?? 0) > (best?.grown ?? -1) ? one : best), null);
    const exits = site.streams.map((one) => one.exit).filter(Boolean);
    this.fill(node, site, { text: latest?.last ?? "", log: latest?.log, bars: this.each(site.streams), exit: exits[0] });
    this.curves.show(node.cells[1], site.site, site.streams);
  }

  /** The logs of *streams* that have a line of their own in the row of their site, those in trouble first. */
  each(streams) {
    const ranks = streams.some((one) => has(one.rank) && !one.sealed); // all of them: a bar that comes late needs no room
    const weight = (one) => ["bad", "warn"].indexOf(kind(one.standing)) >>> 0; // -1, of all others, is the greatest
    return streams.filter((one) => (has(one.rank) ? ranks && !one.copy : one.bar && !one.sealed)).sort((a, b) => weight(a) - weight(b));
  }

  showLog(node, site, one) {
    if (differs(node, one.log)) {
      const box = site.streams.includes(one) && this.chosen.box(`${site.site}/${called(one)}`, [{ site: site.site, log: one.log }]);
      node.name.replaceChildren(box || "", site.streams.includes(one) ? h("a", { href: path(this.run, site.site, one.log) }, h("bdi", {}, called(one))) : h("bdi", {}, called(one)), has(one.rank) ? h("small", {}, `rank ${one.rank}`) : "", one.copy ? h("small", {}, "repeats log.txt") : "");
    }
    this.fill(node, { ...one, of: site.site, bytes: one.committed, lost: 0, skew: null }, { text: one.last ?? "", log: one.log, bars: one.bar ? [{ ...one, rank: null }] : [], exit: one.exit });
    this.curves.show(node.cells[1], site.site, [one]);
  }

  /** The mark of a finding in a row: its kind, with a link to its lines. It has its room in a line that is there anyway. */
  mark(node, mark) {
    if (!differs(node.found, JSON.stringify(mark ?? ""))) return;
    const { kind, more, site, log, offset, end, first, cause } = mark ?? {};
    const title = `${first ? "first cause: " : ""}${kind}${more ? ` +${count(more)}` : ""}`;
    node.found.replaceChildren(...(mark ? [h("a", { class: `found ${cause ? "bad" : "warn"}`, href: this.linesOf(kind, site, log, offset, end), title: `The lines of ${kind}${more ? `; ${several(more, "more finding")} of this row above` : ""}` }, icon(cause ? "failed" : "incomplete"), title)] : []));
  }

  fill(node, one, { text, log, bars, exit }) {
    this.mark(node, this.marks[one.log === undefined ? one.site : `${one.of}/${one.log}`]);
    const [state, , size, rate, clocks, missing] = node.cells;
    const last = node.lines;
    const words = exit && !one.words.includes(exit) ? `${one.words}; ${exit}` : one.words;
    if (differs(state, one.standing)) {
      state.words = h("span", {});
      state.replaceChildren(icon(one.standing), state.words);
      node.classList.remove("good", "warn", "bad", "calm");
      node.classList.add(kind(one.standing));
    }
    say(state.words, words);
    if (differs(last, `${text}\n${bars.map((one) => [one.log, one.standing, one.now, one.words, one.bar, one.last].join(" ")).join("\n")}`)) {
      last.replaceChildren(...(bars.length ? [...bars.slice(0, 8).map((bar) => this.bar(bar, one.of ?? one.site)), bars.length > 8 ? h("small", {}, `and ${count(bars.length - 8)} more`) : ""] : [h(text ? "a" : "span", { class: "tail", dir: "auto", href: text && path(this.run, one.of ?? one.site, log) }, undated(text))]));
      last.title = text;
    }
    if (one.streams?.length && !size.link) size.replaceChildren((size.link = archive(this.run, { site: one.site }, { class: null, title: `Download the logs of ${one.site}` })));
    say(size.link ?? size, `${size.link ? "\u2193 " : ""}${bytes(one.bytes)}`);
    say(rate, one.rate ? `${bytes(one.rate)}/s` : "\u2013");
    say(clocks, one.skew === null || one.skew === undefined ? "\u2013" : skew(one.skew));
    const { gaps } = one;
    const gone = [gaps && `${several(gaps, "gap")}${one.lost ? `, ${bytes(one.lost)}` : ""}`, one.doubts].filter(Boolean);
    const told = gone.join(", ");
    if (differs(missing, `${told} ${one.loss}`)) {
      const [log, offset, title] = one.loss ?? [];
      missing.replaceChildren(told && one.loss ? h("a", { href: this.linesOf("loss", one.of ?? one.site, log, offset), title }, told) : told || "\u2013");
    }
    missing.classList.toggle("some", gone.length > 0);
  }

  /** The address of the bytes from *from* to *to* of what is of this *kind*: for a note, of the line above it. */
  linesOf(kind, site, log, from, to) {
    if (/^(exit\.|loss$)/.test(kind)) [from, to] = [Math.max(0, from - 1), Math.max(1, from)];
    return `${path(this.run, site, log)}#bytes=${from}-${to}`;
  }

  /** One log in the row of its site, a link to it: its rank with its state, and its bar or its last line. */
  bar(one, site) {
    const [words, done] = one.bar ?? [one.last ?? "", null];
    const name = has(one.rank) ? `rank ${one.rank}` : called(one);
    const state = one.now ?? one.words;
    return h("a", { class: `progress ${kind(one.standing)}`, href: path(this.run, site, one.log), title: `${site}/${called(one)}: ${state}\n${words}` }, h("small", {}, ...(has(one.rank) ? [icon(one.standing), `${name}: ${state.split(/[:;]/)[0]}`] : [name])),
      done !== null && meter(done, `${name}: ${Math.round(done)} %`), h("span", { class: "tail", dir: "auto" }, undated(words)));
  }

  turn(site) {
    if (!this.opened.delete(site)) this.opened.add(site);
    this.draw();
  }
}

customElements.define("run-page", RunPage);
