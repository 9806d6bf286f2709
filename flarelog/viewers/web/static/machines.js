/**
 * The machines of a run's sites: a sentence for each resource that runs out, and behind a summary the present and the
 * worst figures. Hidden while no site has reported its machine's health.
 */

import { ask, query } from "./api.js";
import { differs, dress, h, icon } from "./dom.js";
import { again } from "./runs.js";

const MACHINES_EVERY = 10_000; // ms; a sidecar measures as often

export class Machines extends HTMLElement {
  constructor(run) {
    super();
    this.run = run;
  }

  connectedCallback() {
    if (this.details) return;
    dress(this, { hidden: true, role: "region", "aria-label": "Machines" });
    this.warnings = h("ul", { hidden: true });
    this.tables = h("div", {});
    this.details = h("details", {}, h("summary", {}, "Machines"), this.tables);
    this.append(this.warnings, this.details);
    this.stop = again(async () => this.draw(await ask(`/api/machines?${query({ run: this.run })}`)), MACHINES_EVERY);
  }

  disconnectedCallback() {
    this.stop();
  }

  draw({ now, worst, warnings }) {
    if (!differs(this, JSON.stringify([now, worst, warnings]))) return;
    this.hidden = !(now.length || worst.length || warnings.length);
    this.warnings.hidden = !warnings.length;
    this.warnings.replaceChildren(...warnings.map((sentence) => h("li", {}, icon("incomplete"), sentence)));
    this.details.hidden = !(now.length || worst.length);
    this.tables.replaceChildren(...[this.table("Now", now), this.table("At their worst", worst)].filter(Boolean));
  }

  table(caption, [head, ...rows]) {
    if (!head) return null;
    const name = (text) => text.toLowerCase().replace(/\b(oom|gpu)|^./g, (word) => word.toUpperCase());
    const cells = (row) => row.map((cell, at) => (at ? h("td", {}, cell) : h("th", { scope: "row" }, h("bdi", {}, cell))));
    return h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": caption },
      h("table", {}, h("caption", {}, caption),
        h("thead", {}, h("tr", {}, ...head.map((text) => h("th", { scope: "col" }, name(text))))),
        h("tbody", {}, ...rows.map((row) => h("tr", {}, ...cells(row))))));
  }
}

customElements.define("run-machines", Machines);
