/** The cards of a list: where to go, and the link to lines with the command that shows the same. */

import { ask, path, query } from "./api.js";
import { h, say } from "./dom.js";
import { card } from "./keys.js";
import { NOTE } from "./lines.js";
import { bytes, place } from "./words.js";

/** Asks for a place, and goes there. */
export function goTo(page) {
  const input = h("input", { name: "place", "aria-label": "Place", autocomplete: "off", placeholder: page.stream ? "1200, @4096, 50%, 08:12:03" : "08:12:03" });
  const said = h("output", {});
  const form = h("form", {}, input, h("button", {}, "Go"), said);
  const dialog = card("Go to", h("p", {}, page.stream ? "A line, @ and an offset in bytes, a share in %, or a time in UTC." : "A time in UTC."), form);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const rows = [page.list.seen()?.first.row, ...page.list.lines.rows]; // lines that tell no time are of no day
    const wanted = place(input.value, rows.find((row) => row?.[5])?.[5] ?? Date.now());
    if (!wanted || (!page.stream && wanted.time === undefined)) return say(said, page.stream ? "This is no line, offset, share or time." : "Merged logs have times alone.");
    dialog.close();
    page.clear();
    page.go(wanted, undefined, true);
  });
  input.focus();
}

/**
 * Shows the link to the marked lines, and the command that shows them in a terminal; without a mark to the lines on the
 * screen, and of merged logs, whose screen is no piece of one log, to its first line.
 */
export async function link(page) {
  const range = page.list.marked ?? shown(page);
  const stream = page.source.streams[range?.[0]];
  if (!stream) return;
  const link = `${location.origin}${path(page.run, stream.site, stream.log)}#bytes=${range[1]}-${range[2]}`;
  const copied = (text) => {
    const code = h("code", {}, text);
    const button = h("button", { type: "button" }, "Copy");
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(text);
      say(button, "Copied");
    });
    return h("div", { class: "copy" }, code, button);
  };
  const raw = `/api/raw?${query({ ...stream, from: range[1], to: range[2] })}`;
  const command = h("div", {});
  card("These lines", h("h3", {}, "Link"), copied(link), h("h3", {}, "In a terminal"), command,
    h("p", {}, h("a", { href: raw, download: `${stream.site}-${stream.log.replaceAll("/", "-")}` }, `Download these ${bytes(range[2] - range[1])}`)));
  try {
    command.append(copied((await ask(`/api/command?${query({ ...stream, from: range[1], to: range[2] })}`)).command));
  } catch (error) {
    command.append(h("p", {}, error.message));
}
}

/** The log and the bytes of what the screen shows; undefined where it shows no line. */
function shown({ list, stream }) {
  const seen = list.seen();
  const first = list.lines.view().slice(seen?.before).find((item) => !(item.row[4] & NOTE));
  const last = stream ? seen?.last : first;
  return first && [first.row[0], first.row[1], Math.max((last.tail ?? last.row)[2], first.row[1] + 1)];
}
