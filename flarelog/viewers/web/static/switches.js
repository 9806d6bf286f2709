/** The switches in the page's header: light or dark, and the zone of all times. */

import { h, s, say } from "./dom.js";
import { heard, set, setting } from "./settings.js";
import { zone } from "./words.js";

const TURNED = { auto: "light", light: "dark", dark: "auto", utc: "local", local: "utc" };
const TITLES = { auto: "as the system", light: "light", dark: "dark", utc: "UTC", local: "your own" };
const THEMES = {
  auto: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zm0 1.500v9a4.500 4.500 0 0 1 0-9z",
  light: "M8 4.500a3.500 3.500 0 1 0 0 7 3.500 3.500 0 0 0 0-7zM7.300.500h1.400v2.300H7.300zM7.300 13.200h1.400v2.300H7.300zM.500 7.300h2.300v1.400H.500zM13.200 7.300h2.300v1.400h-2.300z",
  dark: "M6.500 2a6 6 0 1 0 7.500 7.500A5 5 0 0 1 6.500 2z",
};

/** The switches; *again* shows the page anew, in another zone. */
export function switches(again) {
  const path = s("path", { "fill-rule": "evenodd" });
  const theme = button(s("svg", { viewBox: "0 0 16 16", class: "icon", "aria-hidden": "true" }, path), "theme", "Colours");
  const clocks = button("", "zone", "Times");
  const show = () => {
    path.setAttribute("d", THEMES[setting("theme")]);
    document.documentElement.style.colorScheme = setting("theme") === "auto" ? "" : setting("theme");
    const here = zone(Date.now());
    say(clocks, setting("zone") === "local" && here === "UTC" ? "Local" : here);
    for (const one of [theme, clocks]) one.named();
  };
  heard("theme", show);
  heard("zone", () => {
    show();
    again();
  });
  show();
  return [clocks, theme];
}

function button(inner, name, what) {
  const made = h("button", { type: "button", class: "quiet switch", on: { click: () => set(name, TURNED[setting(name)]) } }, inner);
  made.named = () => {
    const now = setting(name);
    made.setAttribute("aria-label", `${what}: ${TITLES[now]}`);
    made.title = `${what}: ${TITLES[now]}. Press for ${TITLES[TURNED[now]]}.`;
  };
  return made;
}
