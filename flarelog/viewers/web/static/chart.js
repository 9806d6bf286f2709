/** A card with the curves of one metric in several logs: each value with its step, and a way to its line. */

import { ask, path, query } from "./api.js";
import { h, s, say } from "./dom.js";
import { card } from "./keys.js";
import { hue } from "./paint.js";
import { called, count } from "./words.js";

const CHART_WIDE = 640;
const CHART_HIGH = 260;
const CHART_LEFT = 64; // for the least and the greatest value
const CHART_BELOW = 24; // for the steps
const READ_AGAIN = 1000; // ms until curves that are still being read are asked for again

/** Shows the curves of *metric* in *streams* of *run*. */
export async function chart(run, metric, streams) {
  const said = h("p", { role: "status" }, "Waiting for the curves \u2026");
  const drawing = s("svg", { class: "chart", viewBox: `0 0 ${CHART_WIDE} ${CHART_HIGH}`, role: "img", "aria-label": `Curves of ${metric}` });
  const names = h("ul", { class: "names" });
  const dialog = card(metric, drawing, said, names);
  const logs = streams.map(({ site, log }) => `&${query({ log: `${site}/${log}` })}`).join("");
  while (dialog.isConnected) {
    const { curves, reading } = await ask(`/api/curves?${query({ run, metric })}${logs}`).catch((error) => ({ curves: [], reading: say(said, error.message) }));
    if (curves.length) charted({ run, metric, curves, said, drawing, names });
    else if (reading === false) say(said, `No line of these logs has ${metric}.`);
    if (!reading) return;
    await new Promise((done) => setTimeout(done, READ_AGAIN));
  }
}

function charted({ run, metric, curves, said, drawing, names }) {
  const every = curves.flatMap((one, of) => one.values.map((value, at) => ({ one, of, value, offset: one.places[at][0], step: one.places[at][1] }))).filter(({ value }) => value !== null);
  const steps = every.every(({ step }) => step >= 0);
  const along = (point) => (steps ? point.step : point.offset);
  const numbers = every.filter(({ value }) => typeof value === "number").map(({ value }) => value);
  const [low, high] = [Math.min(...numbers), Math.max(...numbers)];
  const [from, to] = [Math.min(...every.map(along)), Math.max(...every.map(along))];
  const share = (value, least, most) => (most > least ? (value - least) / (most - least) : 0.5);
  for (const point of every) {
    point.x = CHART_LEFT + share(along(point), from, to) * (CHART_WIDE - CHART_LEFT - 8);
    point.y = typeof point.value === "number" ? CHART_HIGH - CHART_BELOW - 4 - share(point.value, low, high) * (CHART_HIGH - CHART_BELOW - 12) : 8;
  }
  const text = (x, y, what, anchor) => s("text", { x, y, "text-anchor": anchor }, what);
  const dot = s("circle", { r: 4, cx: -9 });
  drawing.replaceChildren(
    s("path", { class: "axis", d: `M${CHART_LEFT} 4V${CHART_HIGH - CHART_BELOW}H${CHART_WIDE - 4}` }),
    ...(numbers.length ? [text(CHART_LEFT - 6, 14, String(Number(high.toPrecision(4))), "end"), text(CHART_LEFT - 6, CHART_HIGH - CHART_BELOW - 2, String(Number(low.toPrecision(4))), "end")] : []),
    text(CHART_LEFT, CHART_HIGH - 6, `${steps ? "step" : "byte"} ${count(from)}`, "start"), text(CHART_WIDE - 4, CHART_HIGH - 6, count(to), "end"),
    ...curves.map((one, of) => tinted(s("path", { d: through(every.filter((point) => point.of === of)) }), of)),
    ...every.filter(({ value }) => typeof value === "string").map(({ x }) => s("path", { class: "odd", d: `M${x} 4v10` })), dot,
  );
  let near;
  drawing.onpointermove = (event) => {
    const box = drawing.getBoundingClientRect();
    const [x, y] = [((event.clientX - box.left) / box.width) * CHART_WIDE, ((event.clientY - box.top) / box.height) * CHART_HIGH];
    const away = (point) => (point.x - x) ** 2 + (point.y - y) ** 2;
    near = every.reduce((best, point) => (away(point) < away(best) ? point : best));
    dot.setAttribute("cx", near.x);
    dot.setAttribute("cy", near.y);
    say(said, `${near.one.site}/${called(near.one)}: ${metric} ${near.value}${near.step >= 0 ? ` at step ${count(near.step)}` : ""}; a click shows the line`);
  };
  const line = ({ one, offset }) => `${path(run, one.site, one.log)}#bytes=${offset}-${offset + 1}`;
  drawing.onclick = () => near && drawing.dispatchEvent(new CustomEvent("visit", { bubbles: true, detail: line(near) }));
  say(said, "Point at a curve for its values; a click shows the line.");
  names.replaceChildren(...curves.map((one, of) => h("li", {}, tinted(s("svg", { viewBox: "0 0 16 8", "aria-hidden": "true" }, s("path", { d: "M0 4h16" })), of),
    h("a", { href: line(every.findLast((point) => point.of === of)) }, h("bdi", {}, `${one.site}/${called(one)}`)), ` ${one.words}`)));
}

/** A line through *points*, without those that are no numbers. */
function through(points) {
  const places = points.filter(({ value }) => typeof value === "number").map(({ x, y }) => `${x.toFixed(1)} ${y.toFixed(1)}`);
  return places.length ? `M${places[0]}h0L${places.join(" ")}` : "";
}

/** *element* in the colour of the curve with *number*. */
function tinted(element, number) {
  element.style.setProperty("stroke", `light-dark(oklch(0.55 0.15 ${hue(number)}), oklch(0.75 0.13 ${hue(number)}))`);
  return element;
}
