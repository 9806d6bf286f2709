/**
 * A lane for each site over the time of a run: how much it sent, when it was quiet, silent or away, and marks for events.
 * A stretch that is chosen by dragging, or by keys, opens the logs merged by time. It has its height before the server
 * answers, and keeps it without an answer, so that what is below never moves.
 */

import { ask, path, query, waited } from "./api.js";
import { h, kind, say } from "./dom.js";
import { Drawn } from "./drawn.js";
import { hue } from "./paint.js";
import { roomFor } from "./room.js";
import { again } from "./runs.js";
import { LEGEND, SHAPES, SIGNS } from "./shapes.js";
import { clock, moment, several, zone } from "./words.js";

const LANES_EVERY = 5000;
const LANE = 18; // pixels
const TOP = 32; // pixels, for the times and the rounds: above, because many lanes scroll
const BELOW = 4; // pixels
const DRAGGED = 4; // pixels of a stretch: a press that moves less is for a time
const LATE_NEAR = 40; // pixels around the arrival of late lines
const STEP = 8; // pixels of a step by an arrow key
const INKS = { good: "--good", warn: "--warn", bad: "--bad", calm: "--soft" }; // of marks
const BARS = { sending: "--lane-sending", warning: "--warn", error: "--bad" };
const MARK = 12; // pixels
const DAY = 86_400_000; // ms
const STATES = ["quiet", "silent", "lost link", "paused"]; // of stretches
const NAMES_WIDTH = 130; // pixels at most; on a narrow screen a quarter of its width

export class Lanes extends Drawn {
  constructor(run) {
    super();
    this.run = run;
    this.sites = [];
    this.numbers = new Map(); // of the sites, which tell their colours
    this.idle = ""; // what is said while no time is chosen
  }

  connectedCallback() {
    if (!this.made({ role: "img", "aria-label": "No times" })) return;
    this.said = h("p", { class: "said", role: "status" });
    this.legend = h("details", { class: "legend", on: { toggle: () => this.draw() } }, h("summary", {}, "Legend"), h("ul", {}, ...Object.entries(LEGEND).map(([what, words]) => h("li", {}, h("canvas", { width: 56, height: 2 * LANE, "data-what": what }), words))));
    this.append(h("div", { class: "title" }, h("h2", {}, "Timeline"), this.legend, this.said), h("div", { class: "scroll", tabindex: "0", role: "application", "aria-label": "Timeline: arrow keys choose a time and a site, with Shift a stretch, Enter reads its logs", on: { keydown: (event) => this.pressed(event), blur: () => this.cancel() } }, this.canvas));
    this.canvas.addEventListener("pointermove", (event) => this.moved(event));
    this.canvas.addEventListener("pointerdown", (event) => this.down(event));
    this.canvas.addEventListener("pointerup", (event) => this.up(event));
    this.canvas.addEventListener("pointercancel", () => this.cancel());
    this.canvas.addEventListener("pointerleave", () => this.begun === undefined && this.at === undefined && say(this.said, this.idle));
  }

  disconnectedCallback() {
    this.stop?.();
    super.disconnectedCallback();
  }

  begin() {
    this.stop = again(() => this.look(), LANES_EVERY);
  }

  async look() {
    try {
      const asked = ask(`/api/lanes?${query({ run: this.run, buckets: Math.max(60, Math.min(600, Math.floor(this.clientWidth / 2) || 300)) })}`);
      this.record = await waited(asked, () => this.record || say(this.said, (this.idle = "Waiting for the times \u2026")));
      this.idles();
      this.draw();
    } catch (error) {
      if (error.status >= 400 && error.status < 500) this.idles(); // an older receiver has no timeline
      throw error;
    }
  }

  /** Says that there is nothing to show, until there is. */
  idles() {
    const idle = this.told ? "" : "No times are known.";
    if (idle !== this.idle) say(this.said, (this.idle = idle));
  }

  /** Shows lanes of *sites*, in this order. */
  order(sites) {
    this.numbers = new Map(sites.map(({ site, number }) => [site, number]));
    this.sites = sites.map(({ site }) => site);
    this.canvas.style.blockSize = `${this.height}px`;
    this.draw();
  }

  get height() {
    return TOP + this.sites.length * LANE + BELOW;
  }

  /** Whether there are lanes to show. */
  get told() {
    return this.record && this.record.lanes.length > 0 && this.record.to > this.record.from;
  }

  lanes() {
    const by = new Map(this.record.lanes.map((lane) => [lane.site, lane]));
    return this.sites.map((site) => by.get(site) ?? { site, density: [] });
  }

  x(time) {
    const { from, to } = this.record;
    return this.names + ((time - from) / (to - from)) * (this.width - this.names - 8);
  }

  time(x) {
    const { from, to } = this.record;
    return from + (Math.min(1, Math.max(0, (x - this.names) / (this.width - this.names - 8)))) * (to - from);
  }

  render() {
    if (this.legend.open) for (const canvas of this.legend.querySelectorAll("canvas")) this.sample(canvas);
    if (!this.told) return;
    const lanes = this.lanes();
    this.width = this.canvas.parentElement.clientWidth;
    this.names = Math.min(NAMES_WIDTH, this.width / 4);
    const height = this.height;
    const [pen, ink] = this.pen(this.width, height);
    pen.font = `12px ${getComputedStyle(this).fontFamily}`;
    pen.textBaseline = "middle";
    let free = 0; // where there is room for the next name
    for (const [at, text] of this.record.rounds ?? []) {
      pen.fillStyle = ink("--line");
      pen.fillRect(this.x(at), TOP - 4, 1, height - TOP - BELOW + 6);
      pen.fillStyle = ink("--soft");
      if (this.x(at) < free) continue;
      pen.fillText(text, this.x(at) + 3, 23);
      free = this.x(at) + pen.measureText(text).width + 8;
    }
    lanes.forEach((lane, at) => this.lane(pen, ink, lane, TOP + at * LANE));
    this.axis(pen, ink);
    pen.fillStyle = ink("--accent");
    if (this.begun !== undefined && this.ended !== undefined) {
      const [from, to] = [this.x(this.begun), this.x(this.ended)];
      pen.globalAlpha = 0.2;
      pen.fillRect(Math.min(from, to), TOP, Math.abs(to - from), height - TOP - BELOW);
      pen.globalAlpha = 1;
    }
    if (this.at !== undefined) {
      pen.fillRect(this.x(this.at) - 1, TOP, 2, height - TOP - BELOW);
      pen.fillRect(0, TOP + this.row * LANE + LANE - 3, this.names - 8, 2);
    }
    this.canvas.setAttribute("aria-label", this.words(lanes));
  }

  lane(pen, ink, lane, y) {
    const at = hue(this.numbers.get(lane.site));
    this.canvas.style.setProperty(`--site-${at}`, `light-dark(oklch(0.55 0.13 ${at}), oklch(0.75 0.12 ${at}))`);
    pen.fillStyle = ink(`--site-${at}`);
    pen.fillRect(0, y + LANE / 2 - 5, 4, 9);
    pen.fillStyle = ink("--ink");
    pen.fillText(lane.site.length > 19 ? `${lane.site.slice(0, 18)}\u2026` : lane.site, 8, y + LANE / 2, this.names - 16);
    pen.fillStyle = ink("--line");
    pen.fillRect(this.names, y + LANE - 3, this.width - this.names - 8, 1);
    for (const [from, to, state] of lane.states ?? []) {
      this.stretch(pen, ink, state, this.x(from), y, Math.max(1, this.x(to) - this.x(from)));
    }
    const most = Math.max(1, ...lane.density);
    const step = (this.width - this.names - 8) / lane.density.length;
    pen.fillStyle = ink("--lane-sending");
    lane.density.forEach((size, at) => {
      if (!size) return;
      const high = 2 + (Math.log1p(size) / Math.log1p(most)) * (LANE - 6);
      pen.fillRect(this.names + at * step, y + LANE - 2 - high, Math.max(1, step - 0.25), high);
    });
    for (const [at, , warnings, errors] of lane.levels ?? []) {
      if (!warnings && !errors) continue;
      const high = 3 + (Math.log1p(lane.density[at] ?? 0) / Math.log1p(most)) * (LANE - 7);
      pen.fillStyle = ink(errors ? "--bad" : "--warn");
      pen.fillRect(this.names + at * step, y + LANE - 2 - high, Math.max(2, step), high);
      if (errors) pen.fillRect(this.names + at * step - 1, y, Math.max(2, step) + 2, 2); // where warnings have nothing: a colour alone would not tell
    }
    for (const [at, what] of lane.marks ?? []) {
      this.mark(pen, ink, what, this.x(at), y + LANE / 2);
    }
    if (lane.late) this.late(pen, ink, lane, y);
  }

  /** Writes how late the lines of *lane* came, where that hides no mark of it: before their arrival, or to the right of it. */
  late(pen, ink, lane, y) {
    const step = (this.width - this.names - 8) / lane.density.length;
    const bucket = (at) => [this.names + at * step - 1, this.names + (at + 1) * step + 2];
    const marks = [...(lane.marks ?? []).map(([at]) => [this.x(at) - MARK / 2, this.x(at) + MARK / 2]), ...(lane.levels ?? []).filter((one) => one[2] || one[3]).map(([at]) => bucket(at)),
      ...(lane.states ?? []).filter(([, , state]) => state !== "quiet").map(([from, to]) => [this.x(from), this.x(to)])];
    const bars = lane.density.flatMap((size, at) => (size ? [bucket(at)] : []));
    for (const late of lane.late) {
      const [, , came, said, later] = late;
      for (const [text, taken] of [[this.lates(late), [...marks, ...bars]], [said, [...marks, ...bars]], [this.lates(late), marks], [said, marks]]) {
        const { width } = pen.measureText(text);
        const x = roomFor(width + 8, taken, this.names, this.width - 8, this.x(came || this.arrived(lane)) - MARK / 2);
        if (x === null) continue;
        pen.fillStyle = ink("--raised");
        pen.fillRect(x + 2, y + 1, width + 4, LANE - 5);
        pen.fillStyle = ink(later ? "--warn" : "--soft");
        pen.fillText(text, x + 4, y + LANE / 2 - 1);
        marks.push([x, x + width + 8]);
        break;
      }
    }
  }

  /** When the first byte of *lane* came. */
  arrived(lane) {
    return (lane.marks ?? []).find(([, what]) => what === "begun")?.[0] ?? this.record.from;
  }

  lates([from, to, , said]) {
    const when = this.record.to - from < DAY ? clock : moment;
    return `lines of ${when(from)}${to ? ` to ${(to - from < DAY ? clock : when)(to)}` : " on"}, ${said}`;
  }

  /** A stretch of *width* from *x* on, in the lane at *y*. */
  stretch(pen, ink, state, x, y, width) {
    const high = state === "quiet" ? 2 : LANE - 8;
    pen.fillStyle = ink(`--lane-${state.replace(" ", "-")}, var(--line)`);
    pen.fillRect(x, y + LANE - 3 - high, width, high);
    this.hatch(pen, ink("--soft"), state, x, y + LANE - 3 - high, width, high);
  }

  /** Draws one form of the legend. */
  sample(canvas) {
    const { what } = canvas.dataset;
    const pen = canvas.getContext("2d");
    const ink = (name) => (this.inks[name] ??= this.ink(name));
    pen.setTransform(2, 0, 0, 2, 0, 0);
    pen.clearRect(0, 0, 28, LANE);
    pen.fillStyle = ink(BARS[what] ?? "--line");
    if (what === "round") pen.fillRect(14, 0, 1, LANE);
    else if (BARS[what]) for (const at of [0, 1, 2, 3, 4]) pen.fillRect(2 + 5 * at, LANE - 5 - 2 * at, 4.75, 2 + 2 * at);
    else if (STATES.includes(what)) this.stretch(pen, ink, what, 0, 0, 28);
    else if (what === "late") {
      pen.fillStyle = ink("--soft");
      pen.fillText("late", 2, 13);
    }
    else this.mark(pen, ink, what, 14, LANE / 2);
    if (what === "error") pen.fillRect(1, 0, 27, 2);
  }

  /** Lines over a stretch, another pattern for each state: a colour alone would not tell them apart. */
  hatch(pen, colour, state, x, y, width, high) {
    if (state === "quiet") return;
    const slant = state === "lost link" ? high : 0;
    const step = state === "paused" ? 3 : 6;
    pen.save();
    pen.beginPath();
    pen.rect(x, y, width, high);
    pen.clip();
    pen.beginPath();
    if (state === "silent") {
      pen.moveTo(x, y + high / 2);
      pen.lineTo(x + width, y + high / 2);
    } else {
      for (let at = x - slant; at < x + width; at += step) {
        pen.moveTo(at, y + high);
        pen.lineTo(at + slant, y);
      }
    }
    pen.strokeStyle = colour;
    pen.lineWidth = 0.75;
    pen.stroke();
    pen.restore();
  }

  /** A shape for each kind of mark, that of the standing: a colour alone would not tell them apart. */
  mark(pen, ink, what, x, y) {
    const shape = SIGNS[what] ?? what;
    pen.fillStyle = ink(INKS[kind(shape)]);
    pen.save();
    pen.translate(x - MARK / 2, y - MARK / 2);
    pen.scale(MARK / 16, MARK / 16);
    pen.fill(new Path2D(SHAPES[shape] ?? SHAPES.begun), "evenodd");
    pen.restore();
  }

  axis(pen, ink) {
    pen.fillStyle = ink("--soft");
    pen.fillText(`arrival, ${zone(this.record.to)}`, 0, 8, this.names - 8);
    const steps = Math.max(1, Math.floor((this.width - this.names) / 160));
    for (let at = 0; at <= steps; at += 1) {
      const time = this.record.from + ((this.record.to - this.record.from) * at) / steps;
      pen.textAlign = at === 0 ? "left" : at === steps ? "right" : "center";
      pen.fillText(clock(time, this.record.to - this.record.from < 1000 * steps), this.x(time), 8);
    }
    pen.textAlign = "left";
  }

  words(lanes) {
    const troubles = lanes.map((lane) => {
      const marks = (lane.marks ?? []).filter(([, what]) => what === "gap").length;
      const [, warnings, errors] = [1, 2, 3].map((k) => (lane.levels ?? []).reduce((sum, each) => sum + each[k], 0));
      const parts = [marks && `bytes are or may be missing in ${several(marks, "place")}`, errors && several(errors, "error"), warnings && several(warnings, "warning"), ...(lane.late ?? []).map((late) => this.lates(late))].filter(Boolean);
      return parts.length ? `${lane.site}: ${parts.join(", ")}` : null;
    });
    return `Timeline from ${moment(this.record.from)} to ${moment(this.record.to)} ${zone(this.record.to)} of ${lanes.length} sites. ${troubles.filter(Boolean).join("; ")}`.trim();
  }

  moved(event) {
    if (!this.told) return;
    const { offsetX: x, offsetY: y } = event;
    if (this.begun !== undefined) {
      this.ended = this.time(x);
      this.draw();
    }
    this.tell(this.time(x), Math.floor((y - TOP) / LANE));
  }

  /** Says what the site of lane *row* did at *time*. */
  tell(time, row) {
    const lane = this.lanes()[row];
    if (!lane) return say(this.said, "");
    const x = this.x(time);
    const near = (lane.marks ?? []).find(([at]) => Math.abs(this.x(at) - x) < 6);
    const state = (lane.states ?? []).find(([from, to]) => from <= time && time < to);
    const what = near ? `${near[1]}${near[2] ? `: ${near[2]}` : ""}` : state ? `${state[2]}${state[3] ? `: ${state[3]}` : ""}` : "";
    const stretch = this.at !== undefined && this.begun !== undefined ? `from ${clock(Math.min(this.begun, time))} to ${clock(Math.max(this.begun, time))}` : `at ${clock(time)}`;
    const { from, to, counted } = this.record;
    const bucket = Math.floor(((time - from) / (to - from)) * lane.density.length);
    const about = (lane.levels ?? []).filter(([at]) => Math.abs(at - bucket) <= 1);
    const counts = ["line", "warning", "error"].map((one, k) => [about.reduce((sum, each) => sum + each[k + 1], 0), one]).filter(([number]) => number).map((each) => several(...each)).join(", ");
    const lates = this.lateAt(lane, time).map((late) => `${late[2] ? "" : `first byte ${clock(this.arrived(lane))}, `}${this.lates(late)}`);
    say(this.said, `${lane.site} ${stretch} ${zone(time)}${[what, counts && `${counts}${counted < 1 ? " so far" : ""}`, ...lates].filter(Boolean).map((each) => `: ${each}`).join("")}`);
  }

  /** What *lane* sent late around *time*: a log that began late, or the lines of an outage. */
  lateAt(lane, time) {
    return (lane.late ?? []).filter(([, , came]) => !came || Math.abs(this.x(came) - this.x(time)) < LATE_NEAR);
  }

  down(event) {
    if (!this.told || event.offsetX < this.names - MARK / 2) return; // half of a mark at the begin lies before it
    this.cancel();
    this.begun = this.time(event.offsetX);
    this.row = Math.floor((event.offsetY - TOP) / LANE);
    this.canvas.setPointerCapture(event.pointerId);
  }

  up(event) {
    if (this.begun === undefined) return;
    this.ended = this.time(event.offsetX);
    this.read();
  }

  /** Opens the lines that arrived at the chosen site from a time on, or at all sites in a stretch of time: those that the chart shows there. */
  read() {
    const times = [this.begun, this.ended, this.at].filter((time) => time !== undefined);
    const [from, to] = [Math.min(...times), Math.max(...times)];
    const { from: begin, to: end, lanes: [{ density }] } = this.record;
    const bar = (end - begin) / density.length; // ms, within which a bar tells no time
    const time = Math.max(1, Math.floor(from - bar) - 1);
    const at = this.x(to) - this.x(from) < DRAGGED ? { time, site: this.sites[this.row] } : { from: time, to: Math.ceil(to + bar) };
    this.cancel();
    this.dispatchEvent(new CustomEvent("visit", { bubbles: true, detail: `${path(this.run)}?merged=arrival&${query(at)}` }));
  }

  cancel() {
    this.begun = this.ended = this.at = undefined;
    say(this.said, this.idle);
    this.draw();
  }

  pressed(event) {
    const { key } = event;
    if (!this.told || event.ctrlKey || event.metaKey || event.altKey) return;
    const chosen = this.at !== undefined;
    if (key === "Escape" && (chosen || this.begun !== undefined)) this.cancel();
    else if (key === "Enter" && chosen) this.read();
    else if (["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"].includes(key)) this.choose(key, event.shiftKey);
    else return;
    event.preventDefault();
  }

  /** Moves the chosen time or site by *key*; *more*: marks a stretch from the present time on. */
  choose(key, more) {
    const { from, to } = this.record;
    const step = { ArrowLeft: -STEP, ArrowRight: STEP }[key];
    if (this.at === undefined) [this.at, this.row] = [(from + to) / 2, 0];
    else if (!more) this.begun = this.ended = undefined;
    if (more) this.begun ??= this.at;
    if (step) this.at = this.time(this.x(this.at) + step);
    else if (key === "Home" || key === "End") this.at = key === "Home" ? from : to;
    else this.row = Math.max(0, Math.min(this.lanes().length - 1, this.row + (key === "ArrowUp" ? -1 : 1)));
    if (more) this.ended = this.at;
    const box = this.canvas.parentElement; // it scrolls where there are many sites
    const [high, low] = [TOP + this.row * LANE, TOP + (this.row + 1) * LANE];
    box.scrollTop = Math.max(low - box.clientHeight + LANE, Math.min(high - LANE, box.scrollTop));
    this.tell(this.at, this.row);
    this.draw();
  }
}

customElements.define("run-lanes", Lanes);
