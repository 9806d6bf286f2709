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
import { listen } from "./keys.js";
import { Machines } from "./machines.js";
import { meter } from "./paint.js";
import { searchOf } from "./searchbar.js";
import { again, past, shows, silence, trouble } from "./runs.js";
import { archive, report } from "./taking.js";
import { bytes, called, count, moment, several, skew, zone } from "./words.js";

const WEIGHT = { bad: 0, warn: 1, good: 2, calm: 2 };
const SHOWN = 200; // sites that are shown at first
const PLACES = 12; // places that are shown of equal findings
const KINDS = 6; // kinds of findings that are named while the findings are folded
const FEW = 2; // different findings that are unfolded at first: more would push the sites off the screen
const SLOWER = 10_000; // ms between two requests for errors and findings
const TOGETHER = 100; // ms that the sites wait for errors and findings, which stand above them
const SOON = 300; // ms until last lines that are still being read are asked for again
const FOUND = 20; // logs that the filter finds in a site at most so that they are shown without a press
const AT_FIRST = 50; // ms until an unfinished list is asked for again, twice as long each time

/** The logs of *site*, with those that are not stored and cannot be opened. */
const logs = (site) => [...site.streams, ...(site.unstored ?? [])];
/** *one*, a site or a log, as it is shown while nothing is known of now. */
const earlier = (one) => (one.lasting === undefined ? one : { ...one, standing: past(one.standing), words: one.lasting || "open", rate: 0 });
const many = (site) => logs(site).reduce((sum, one) => sum + (one.count ?? 1), 0);

export class RunPage extends HTMLElement {
  begin(run, site, hash) {
    Object.assign(this, { run, site: site ?? "", hash });
    return this;
  }

  connectedCallback() {
    this.left = new AbortController(); // the search outlives this page
    this.rows = new Map();
    this.opened = new Set();
    this.most = SHOWN;
    this.listed = AT_FIRST;
    this.begun = false; // the slow requests
    this.trouble = h("p", { class: "trouble", role: "alert", hidden: true });
    this.sum = h("p", { class: "sum", role: "status" });
    this.missing = h("ul", { class: "missing", "aria-label": "What is not stored", hidden: true });
    this.first = h("section", { class: "first", hidden: true, "aria-label": "First error" });
    this.counted = h("h2");
    this.kinds = h("span", { class: "kinds" });
    this.folded = h("details", {}, h("summary", { on: { click: () => (this.chose = true) } }, this.counted, this.kinds), (this.each = h("ul")));
    this.findings = h("section", { class: "findings", hidden: true, "aria-label": "Findings" }, this.folded);
    this.chosen = new Chosen(this.run);
    this.lanes = new Lanes(this.run);
    this.lanes.hidden = true;
    this.filter = h("input", { type: "search", "aria-label": "Show sites and logs that contain", placeholder: "Site or log", value: this.site, on: { input: () => this.draw() } });
    this.only = h("select", { "aria-label": "Standing", on: { change: () => this.draw() } }, h("option", { value: "" }, "All sites"), h("option", { value: "bad" }, "In trouble"), h("option", { value: "open" }, "Not ended"));
    this.curves = new Curves(this.run, () => this.draw());
    this.body = h("div", { class: "body", role: "rowgroup" });
    this.empty = h("p", { class: "empty", hidden: true });
    this.more = h("button", { type: "button", class: "more", hidden: true, on: { click: () => this.all() } });
    const names = ["Site", "Standing", "Last line", "Bytes", "Bytes/s", "Clock", "Missing"];
    const base = path(this.run);
    this.search = searchOf(this.run);
    this.search.begin(this.run, null, null);
    this.append(
      h("div", { class: "title" }, h("h1", {}, h("bdi", {}, this.run)), this.sum),
      this.trouble, this.missing, this.first, this.findings, this.lanes,
      (this.tools = h("div", { class: "tools", hidden: true }, this.filter, this.only, this.curves.select, h("span", { class: "spring" }),
        h("button", { type: "button", title: "Search all logs (/)", on: { click: () => this.search.open() } }, "Search"),
        h("a", { class: "button", href: `${base}?merged=time` }, "All logs by time"), h("a", { class: "button", href: `${base}?merged=arrival` }, "All logs by arrival"),
        (this.ranked = h("a", { class: "button", hidden: true, href: `${base}?merged=time&rank=0` }, "Rank 0 of each site")),
        archive(this.run), report(this.run))),
      this.search,
      (this.table = h("div", { class: "table sites", hidden: true, role: "table", "aria-label": `Sites of ${this.run}` },
        h("div", { class: "head", role: "rowgroup" }, h("div", { class: "line", role: "row" }, ...names.map((name) => h("span", { role: "columnheader" }, name)))), this.body)),
      this.empty, this.more, (this.below = document.createComment("machines")), this.chosen.bar,
    );
    this.stop = [again(() => this.look(), undefined, (who) => this.late(who))];
    this.search.addEventListener("go", ({ detail: { site, log, offset, end } }) => {
      this.dispatchEvent(new CustomEvent("visit", { bubbles: true, detail: `${path(this.run, site, log)}${fragment([offset, Math.max(end, offset + 1)], this.search.find)}` }));
    }, { signal: this.left.signal });
    this.search.recall(parsed(this.hash).find, false);
    this.unkey = listen({ "/": () => this.search.open(), n: () => this.search.step(1), N: () => this.search.step(-1), Escape: () => this.search.close(), E: () => !this.first.hidden && this.first.querySelector("a").click() });
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
      if (response.status === 304) return;
      const record = await read(response);
      clearTimeout(this.reading);
      this.listed = record.listing ? Math.min(2 * this.listed, SLOWER) : AT_FIRST;
      if ((record.listing || record.reading) && this.isConnected) this.reading = setTimeout(() => this.look(), record.listing ? this.listed : SOON);
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
    say(this.sum, "");
    for (const part of [this.tools, this.table, this.more, this.missing, this.first, this.findings, this.lanes]) part.hidden = true;
  }

  /** Asks for errors and findings from now on. They stand above the sites, and push them down where they come late. */
  async errors() {
    if (this.stop.length > 1 || !this.isConnected) return;
    const told = new Promise((done) => this.stop.push(again(() => this.wrong().then(done), SLOWER)));
    await Promise.race([told, new Promise((done) => setTimeout(done, TOGETHER))]);
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
    if (first) this.tellFirst(first.found);
    if (findings) this.tellFindings(findings.findings);
    clearTimeout(this.sooner);
    if ((first?.looking || findings?.looking) && this.isConnected) this.sooner = setTimeout(() => this.wrong(), 1500);
  }

  tellFirst(found) {
    this.first.hidden = !found;
    if (!found || !differs(this.first, `${found.id} ${found.offset} ${found.count}`)) return;
    this.first.dataset.id = found.id;
    this.first.dataset.told = `${found.meaning ?? ""} ${found.action ?? ""}`.trim();
    const { site, log } = found.stream;
    const jump = h("a", { class: "button main", href: `${path(this.run, site, log)}#bytes=${found.offset}-${found.end ?? found.offset + 1}` }, "Show it (E)");
    this.first.replaceChildren(
      h("div", { class: "title" }, h("h2", {}, icon("failed"), "First error of all sites"), jump),
      h("p", { class: "where" }, h("bdi", {}, `${site}/${log}`), found.time ? ` at ${moment(found.time)} ${zone(found.time)}` : "", `, byte ${count(found.offset)}`, found.count > 1 ? ` (${count(found.count)} times)` : ""),
      h("p", { class: "what" }, found.text),
      found.meaning && h("p", { class: "meaning" }, found.meaning, found.action && ` ${found.action}`),
    );
  }

  tellFindings(findings) {
    const others = findings.filter((one) => one.id !== this.first.dataset.id);
    this.findings.hidden = others.length === 0;
    if (!differs(this.findings, JSON.stringify(others))) return;
    const title = several(others.length, this.first.hidden ? "finding" : "more finding");
    const alike = new Map(); // many ranks report the same: it is shown once, with all its places
    for (const one of others.slice(0, 200)) {
      const same = JSON.stringify([one.event_name, one.body, one.meaning, one.action]);
      alike.set(same, [...(alike.get(same) ?? []), one]);
    }
    const kinds = new Map();
    for (const { event_name: kind } of others) kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
    const names = [...kinds].slice(0, KINDS).map(([kind, times]) => (times > 1 ? `${kind} (${count(times)} times)` : kind));
    const more = kinds.size > KINDS ? ` and ${several(kinds.size - KINDS, "more kind")}` : "";
    if (!this.chose) this.folded.open = alike.size <= FEW;
    this.counted.replaceChildren(icon("incomplete"), title);
    say(this.kinds, `${names.join(", ")}${more}`);
    this.each.replaceChildren(...[...alike.values()].slice(0, 50).map((ones) => this.finding(ones)));
  }

  /** The list item for *ones*, which are equal findings. */
  finding(ones) {
    const [one] = ones;
    const told = `${one.meaning ?? ""} ${one.action ?? ""}`.trim();
    const places = ones.slice(0, PLACES).flatMap((each, at) => [at ? ", " : " in ", this.where(each)]);
    const more = ones.length > PLACES ? ` and ${several(ones.length - PLACES, "more place")}` : "";
    return h("li", {}, h("p", {}, h("b", {}, one.event_name ?? ""), ...places, more),
      one.body && h("p", { class: "what" }, one.body.slice(0, 500)), told !== this.first.dataset.told && h("p", { class: "meaning" }, told));
  }

  where(one) {
    const href = one.log ? `${path(this.run, one.site, one.log)}#bytes=${one.offset}-${one.offset + Math.max(1, one.length ?? 1)}` : null;
    const name = h("bdi", {}, one.log ? `${one.site}/${called(one)}` : (one.site ?? ""));
    return h("span", {}, href ? h("a", { href }, name) : name, one.count > 1 ? ` (${count(one.count)} times)` : "");
  }

  // The sites.

  /** The logs of *site* that the filter names, or all where it names the site. */
  named(site) {
    const name = this.filter.value.trim().toLowerCase();
    return site.site.toLowerCase().includes(name) ? logs(site) : logs(site).filter((one) => [one.log, called(one)].some((each) => each.toLowerCase().includes(name)));
  }

  wanted(sites) {
    return sites
      .filter((site) => this.named(site).length)
      .sort((a, b) => WEIGHT[kind(a.standing)] - WEIGHT[kind(b.standing)]) // sites in trouble first, otherwise in the order given
      .filter((site) => !this.only.value || (this.only.value === "bad" ? ["bad", "warn"].includes(kind(site.standing)) : site.lasting !== undefined));
  }

  draw() {
    if (!this.record) return;
    const { state, listing, listed, counts, missing = [] } = this.record;
    const sites = this.away ? this.record.sites.map((site) => ({ ...earlier(site), streams: site.streams.map(earlier), unstored: site.unstored?.map(earlier) })) : this.record.sites;
    const told = missing.join("\n");
    if (differs(this.missing, told)) {
      this.missing.hidden = !told;
      this.missing.replaceChildren(...missing.map((sentence) => h("li", {}, icon("incomplete"), sentence)));
    }
    const sums = new Map();
    for (const [name, number] of listing ? [] : counts) sums.set(this.away ? past(name) : name, (sums.get(this.away ? past(name) : name) ?? 0) + number);
    const parts = [...sums].map(([name, number]) => `${count(number)} ${name}`);
    say(this.sum, `${this.away ? `last known: ${past(state)}` : state}: ${several(listed ?? sites.length, "site")}${listing ? " so far" : ""}${parts.length ? `: ${parts.join(", ")}` : ""}`);
    const wanted = this.wanted(sites);
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
      if (logs(site).length > 1 && this.isOpen(site)) for (const one of this.named(site)) this.showLog(take(`${site.site}/${one.log}`, () => this.row("log")), site, one);
    }
    this.rows = kept;
    arrange(this.body, nodes);
    this.tools.hidden = this.table.hidden = this.lanes.hidden = false;
    this.ranked.hidden = !sites.some(({ streams }) => streams.some(({ rank }) => rank === 0));
    this.empty.hidden = wanted.length > 0;
    say(this.empty, sites.length ? "No site matches." : "No site has sent a byte yet.");
    this.more.hidden = wanted.length <= this.most;
    say(this.more, `Show ${several(wanted.length - this.most, "more site")}`);
    this.lanes.order(wanted.slice(0, this.most).map((site) => site.site));
  }

  all() {
    this.most = Infinity;
    this.draw();
  }

  isOpen(site) {
    return this.opened.has(site.site) || this.site === site.site || this.named(site).length < Math.min(FOUND, logs(site).length);
  }

  row(extra = "") {
    const node = h("div", { class: `line ${extra}`, role: "row" });
    node.name = h("span", { role: "rowheader", class: "name" });
    node.cells = ["state", "last", "bytes", "rate", "skew", "missing"].map((name) => h("span", { role: "cell", class: name }));
    node.append(node.name, ...node.cells);
    return node;
  }

  show(node, site) {
    const all = many(site);
    const single = all === 1;
    if (differs(node, `${all} ${site.streams.length} ${this.isOpen(site)}`)) {
      const link = h(site.streams.length ? "a" : "span", { href: !site.streams.length ? null : single ? path(this.run, site.site, site.streams[0].log) : `${path(this.run)}?merged=time&${query({ site: site.site })}` }, h("bdi", {}, site.site));
      const toggle = !single && h("button", { type: "button", class: "quiet", "aria-expanded": String(this.isOpen(site)), on: { click: () => this.turn(site.site) } }, several(all, "log"));
      const box = site.streams.length > 0 && this.chosen.box(site.site, site.streams.map(({ log }) => ({ site: site.site, log })));
      node.name.replaceChildren(box || "", link, ...(single ? [h("small", {}, h("bdi", {}, called(logs(site)[0])))] : [toggle]));
    }
    const latest = site.streams.filter((one) => one.last && !one.copy).reduce((best, one) => ((one.grown ?? 0) > (best?.grown ?? -1) ? one : best), null);
    const exits = site.streams.map((one) => one.exit).filter(Boolean);
    this.fill(node, site, { text: latest?.last ?? "", bars: site.streams.filter((one) => one.bar && !one.sealed), exit: exits[0] });
    this.curves.show(node.cells[1], site.site, site.streams);
  }

  showLog(node, site, one) {
    if (differs(node, one.log)) {
      const box = site.streams.includes(one) && this.chosen.box(`${site.site}/${called(one)}`, [{ site: site.site, log: one.log }]);
      node.name.replaceChildren(box || "", site.streams.includes(one) ? h("a", { href: path(this.run, site.site, one.log) }, h("bdi", {}, called(one))) : h("bdi", {}, called(one)), one.rank === null || one.rank === undefined ? "" : h("small", {}, `rank ${one.rank}`), one.copy ? h("small", {}, "repeats log.txt") : "");
    }
    this.fill(node, { ...one, bytes: one.committed, lost: 0, skew: null }, { text: one.last ?? "", bars: one.bar ? [one] : [], exit: one.exit });
    this.curves.show(node.cells[1], site.site, [one]);
  }

  fill(node, one, { text, bars, exit }) {
    const [state, last, size, rate, clocks, missing] = node.cells;
    const words = exit && !one.words.includes(exit) ? `${one.words}; ${exit}` : one.words;
    if (differs(state, one.standing)) {
      state.words = h("span", {});
      state.replaceChildren(icon(one.standing), state.words);
      node.classList.remove("good", "warn", "bad", "calm");
      node.classList.add(kind(one.standing));
    }
    say(state.words, words);
    if (differs(last, `${text}\n${bars.map((one) => one.bar.join(" ")).join("\n")}`)) {
      last.replaceChildren(...(bars.length ? bars.slice(0, 8).map((bar) => this.bar(bar)) : [h("span", { class: "tail", dir: "auto" }, text)]));
      last.title = text;
    }
    if (one.streams?.length && !size.link) size.replaceChildren((size.link = archive(this.run, { site: one.site }, { class: null, title: `Download the logs of ${one.site}` })));
    say(size.link ?? size, `${size.link ? "\u2193 " : ""}${bytes(one.bytes)}`);
    say(rate, one.rate ? `${bytes(one.rate)}/s` : "\u2013");
    say(clocks, one.skew === null || one.skew === undefined ? "\u2013" : skew(one.skew));
    const gaps = one.gaps ?? 0;
    const gone = [gaps && `${several(gaps, "gap")}${one.lost ? `, ${bytes(one.lost)}` : ""}`, one.unseen && several(one.unseen, "unseen end")].filter(Boolean);
    say(missing, gone.join(", ") || "\u2013");
    missing.classList.toggle("some", gone.length > 0);
  }

  /** The bar of one rank. */
  bar(one) {
    const [words, done] = one.bar;
    const name = one.rank === null || one.rank === undefined ? called(one) : `rank ${one.rank}`;
    return h("span", { class: "progress" }, h("small", {}, name), done === null ? "" : meter(done, `${name}: ${Math.round(done)} %`), h("span", { class: "tail", dir: "auto" }, words));
  }

  turn(site) {
    if (!this.opened.delete(site)) this.opened.add(site);
    this.draw();
  }
}

customElements.define("run-page", RunPage);
