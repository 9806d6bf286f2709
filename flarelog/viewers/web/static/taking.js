/** Links to files that a visitor takes away: logs as one archive, and the report of a run. */

import { query } from "./api.js";
import { h } from "./dom.js";

/** The link to an archive of logs of *run*: of *streams*, of those at a *site*, of those of a *rank*, or of all. */
export function archive(run, { streams = [], site, rank } = {}, properties = {}, text = "Download") {
  const logs = streams.map((one) => `&${query({ log: `${one.site}/${one.log}` })}`);
  return h("a", { class: "button", href: `/api/archive?${query({ run, site, rank })}${logs.join("")}`, download: true, title: "Download these logs as one .zip file", ...properties }, text);
}

/** The links that open the report of *run*, and save it. */
export function report(run) {
  const href = `/report/${encodeURIComponent(run)}`;
  return h("span", { class: "pair" },
    h("a", { class: "button", href, target: "_blank", title: "Open the report of this run, to print or to send" }, "Report"),
    h("a", { class: "button", href: `${href}?download`, download: true, title: "Save the report", "aria-label": "Save the report" }, "\u2193"));
}
