/** The page's frame: the login, the page of each address, and links that do not load the page anew. */

import { parsed, put } from "./address.js";
import { Refused, ask, path, session } from "./api.js";
import { h, s, say } from "./dom.js";
import { help, listen } from "./keys.js";
import { LogPage } from "./log.js";
import { login } from "./login.js";
import { RunPage } from "./run.js";
import { RunsPage } from "./runs.js";
import { ranged } from "./range.js";
import { SidePage } from "./side.js";
import { adopt } from "./settings.js";
import { switches } from "./switches.js";
import { called } from "./words.js";

const crumbs = h("nav", { class: "crumbs", "aria-label": "Where this is" });
const who = h("span", { class: "who" });
const out = h("button", { type: "button", class: "quiet", hidden: true, on: { click: leave } }, "Log out");
const main = h("main", { id: "main" });
let whose;
const skip = h("a", { href: "#main", class: "skip" }, "To the content");

function logo() {
  return s("svg", { viewBox: "0 0 32 32", class: "logo", "aria-hidden": "true" },
    s("path", { d: "M4 9h11M4 16h22M4 23h15" }), s("circle", { cx: "25", cy: "9", r: "4.500" }));
}

session.ask = () => login(known);

const tabs = new BroadcastChannel("flarelog-login"); // the tabs of a browser share a login
tabs.addEventListener("message", ({ data }) => whose && whose !== data && location.reload());

function known(me) {
  if (whose && whose !== me.whose) return location.reload(); // the rows on the page were read with another person's rights
  if (!whose) tabs.postMessage(me.whose);
  whose = me.whose;
  say(who, me.receiver ?? "");
  who.title = `Asks as ${me.who}`;
  out.hidden = false;
}

async function leave() {
  await ask("/api/logout", {});
  tabs.postMessage(""); // what another tab shows was read with the rights that end here
  location.assign("/");
}

/** *part* of an address; as it is where somebody typed what cannot be decoded: the server says what is wrong with it. */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The run, the site and the log that *url* names. */
function named(url) {
  const parts = url.pathname.split("/").slice(1).map(decoded);
  if (parts[0] !== "run" || !parts[1]) return {};
  return { run: parts[1], site: parts[2], log: parts.slice(3).join("/") };
}

function way(...steps) {
  crumbs.replaceChildren(h("a", { href: "/", class: "home", "aria-label": "flarelog: all runs" }, logo(), h("b", {}, "flarelog")));
  steps.forEach(([text, href], at) => {
    const last = at === steps.length - 1;
    crumbs.append(h("span", { class: "slash", "aria-hidden": "true" }, "/"),
      last ? h("span", { class: "here", "aria-current": "page" }, h("bdi", {}, text)) : h("a", { href }, h("bdi", {}, text)));
  });
  document.title = [...steps.map(([text]) => text).reverse(), "flarelog"].join(" \u2013 ");
}

/** The logs that the parameters *name* give, as SITE/LOG. */
function streamsNamed(parameters, name) {
  return parameters.getAll(name).map((each) => ({ site: each.slice(0, each.indexOf("/")), log: each.slice(each.indexOf("/") + 1) }));
}

function merged(parameters) {
  const streams = streamsNamed(parameters, "log");
  return {
    order: parameters.get("merged") === "arrival" ? "arrival" : "time",
    ...(streams.length && { streams }),
    ...(parameters.get("site") && { site: parameters.get("site") }),
    ...(parameters.get("rank") && { rank: /^\d+$/.test(parameters.get("rank")) ? Number(parameters.get("rank")) : parameters.get("rank") }), // the server rejects anything else
  };
}

/** Shows the page that *url* names. */
function show(url) {
  const { run, site, log } = named(url);
  adopt(url.hash);
  const { bytes, find, strange } = parsed(url.hash);
  if (!strange && url.hash !== "#main") put(bytes, find); // with the settings that this browser remembers
  document.querySelector("dialog.card")?.close();
  let page;
  const [time, range] = [timed(url), ranged(url.searchParams)];
  if (!run) {
    way();
    page = new RunsPage().begin(url.search);
  } else if (log) {
    way([called({ log: run }), path(run)], [`${site}/${called({ log })}`]);
    page = new LogPage().begin({ run, stream: { run, site, log }, hash: url.hash, time, range });
  } else if (url.searchParams.has("side")) {
    const streams = streamsNamed(url.searchParams, "side").slice(0, 4);
    way([called({ log: run }), path(run)], [`${streams.length} logs side by side`]);
    page = new SidePage().begin({ run, streams, hash: url.hash, time, range });
  } else if (url.searchParams.has("merged")) {
    const wanted = merged(url.searchParams);
    const what = wanted.rank !== undefined ? `rank ${wanted.rank} of each site` : wanted.streams ? `${wanted.streams.length} logs` : `all logs${wanted.site ? ` of ${wanted.site}` : ""}`;
    way([called({ log: run }), path(run)], [`${what}, by ${wanted.order}`]);
    page = new LogPage().begin({ run, merged: wanted, hash: url.hash, time, range });
  } else {
    way([called({ log: run })]);
    page = new RunPage().begin(run, site, url.hash);
  }
  document.body.classList.toggle("full", page instanceof LogPage || page instanceof SidePage);
  main.replaceChildren(page);
}

function timed(url) {
  const found = Number(url.searchParams.get("time"));
  return found > 0 ? found : undefined;
}

function visit(href) {
  const url = new URL(href, location.href);
  document.querySelector("log-page")?.keep();
  history.pushState(null, "", url);
  show(url);
}

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href]");
  if (!link || event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey || link.target || link.hasAttribute("download")) return;
  const url = new URL(link.href);
  if (url.origin !== location.origin || url.pathname.startsWith("/api/") || link === skip) return;
  event.preventDefault();
  visit(url.href);
});
document.addEventListener("named", ({ detail: { run, site, ...log } }) => way([called({ log: run }), path(run)], [`${site}/${called(log)}`]));
document.addEventListener("visit", (event) => visit(event.detail));
addEventListener("popstate", begin);
listen({ "?": () => document.querySelector("log-page") || help() });

/** Shows the page anew, at its place. */
function anew() {
  document.querySelector("log-page")?.keep();
  show(new URL(location.href));
}

document.body.append(skip, h("header", { class: "top" }, crumbs, who, out, ...switches(anew)), main);

/** Shows who is logged in; without a login, this request and all others wait for one. */
async function greet() {
  try {
    known(await ask("/api/me"));
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    setTimeout(greet, 2000);
  }
}

/** Uses the login secret in the address, if there is one, also in an open tab; then shows the page of the address. */
async function begin() {
  const secret = /^#login=(.+)$/.exec(location.hash)?.[1];
  if (secret) {
    history.replaceState(null, "", location.pathname + location.search); // out of the history before it is used
    try {
      known(await login.with({ secret: decodeURIComponent(secret) }));
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      await login(known, error.message);
    }
  }
  show(new URL(location.href));
}

begin().then(greet);
