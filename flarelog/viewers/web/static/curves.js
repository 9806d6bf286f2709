/** A small curve for each site and log, of a metric that the visitor chooses: all ranks of a site in one picture. */

import { ask, query } from "./api.js";
import { differs, h, s } from "./dom.js";
import { again } from "./runs.js";
import { set, setting } from "./settings.js";

const CURVES_EVERY = 10_000; // ms
const CURVES_SOON = 1000; // ms until curves that are still being read are asked for again
const RANKS = 16; // curves in one picture
const NONE = "none"; // instead of a metric

export class Curves {
  /** @param {() => void} draw shows the curves that are there now */
  constructor(run, draw) {
    Object.assign(this, { run, draw, logs: new Map() });
    this.select = h("select", { class: "curves", disabled: true, "aria-label": "Curve", on: { change: () => this.choose() } });
    this.name([], NONE);
  }

  /** Starts to ask; returns what stops it. */
  begin() {
    return again(() => this.look(), CURVES_EVERY);
  }

  choose() {
    set("curve", this.select.value);
    this.look();
  }

  /** Offers *metrics*. The place of the choice is kept while there are none. */
  name(metrics, chosen) {
    this.select.disabled = !metrics.length;
    this.select.replaceChildren(...[NONE, ...metrics].map((name) => h("option", { value: name }, `Curve: ${name}`)));
    this.select.value = chosen;
  }

  async look() {
    const wanted = setting("curve");
    const { metrics, metric, curves, left, reading } = await ask(`/api/curves?${query({ run: this.run, metric: wanted })}`);
    const shown = wanted === NONE ? NONE : metric || NONE;
    this.logs = new Map(curves.filter(() => shown !== NONE).map((one) => [`${one.site}/${one.log}`, { ...one, metric }]));
    if (differs(this.select, `${shown}\n${metrics.join("\n")}`)) this.name(metrics, shown);
    this.select.title = `The metric whose curve each site shows${left ? `; ${left} more logs have it` : ""}`;
    this.draw();
    clearTimeout(this.sooner);
    if (reading && this.select.isConnected) this.sooner = setTimeout(() => this.look(), CURVES_SOON);
  }

  /** Shows the curves of *streams* of *site* at the end of *cell*. */
  show(cell, site, streams) {
    const found = streams.map((one) => this.logs.get(`${site}/${one.log}`)).filter(Boolean).slice(0, RANKS);
    const told = found.map((one) => `${found.length > 1 ? `${one.log}: ` : ""}${one.metric} ${one.words}`).join("\n");
    if (cell.curve?.parentNode === cell && cell.curve.told === told) return;
    cell.curve?.remove();
    if (!found.length) return;
    cell.curve = s("svg", { class: "curve", viewBox: "-1 -1 66 22", preserveAspectRatio: "none", role: "img", "aria-label": told }, s("title", {}, told), ...found.flatMap(drawn));
    cell.curve.told = told;
    cell.prepend(cell.curve);
  }
}

/** A line through the numbers, and a stroke for each value that is none. */
function drawn({ points }) {
  const width = 64 / Math.max(1, points.length - 1);
  const places = points.map((y, at) => (y === null ? null : [Math.round(at * width), y]));
  const numbers = places.filter((one) => one?.[1] >= 0).map(([x, y]) => `${x} ${20 - y}`);
  return [s("path", { d: numbers.length ? `M${numbers[0]}h0L${numbers.join(" ")}` : "" }), s("path", { class: "odd", d: places.filter((one) => one?.[1] < 0).map(([x]) => `M${x} 0v6`).join("") })];
}
