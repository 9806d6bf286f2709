/** Permalinks: the card with the link to lines, and with the command that shows the same lines in a terminal. */

import { ask, path, query, waited } from "./api.js";
import { h, say } from "./dom.js";
import { card } from "./keys.js";
import { NOTE, REST } from "./lines.js";
import { bytes } from "./words.js";

/**
 * Shows the link to the marked lines, and the command that shows them in a terminal. Without a mark: for the lines on the
 * screen; on a merged page, whose screen is no piece of one log, for its first line.
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
  const rest = page.list.lines.rows.some((row) => row[0] === range[0] && row[1] === range[1] && row[4] & REST);
  card("These lines", rest && h("p", {}, "The first line begins above these bytes: its beginning is not among them."), h("h3", {}, "Link"), copied(link),
    h("p", {}, h("a", { href: raw, download: true }, `Download these ${bytes(range[2] - range[1])}`)), h("h3", {}, "In a terminal"), command); // what comes late is last: nothing moves under a click
  try {
    const asked = ask(`/api/command?${query({ ...stream, from: range[1], to: range[2] })}`);
    command.replaceChildren(copied((await waited(asked, () => say(command, "Waiting for the command \u2026"))).command));
  } catch (error) {
    command.replaceChildren(h("p", {}, error.message));
}
}

/** The log and the bytes of the lines on the screen; undefined if there is no line. */
function shown({ list, stream }) {
  const seen = list.seen();
  const first = list.lines.view().slice(seen?.before).find((item) => !(item.row[4] & NOTE));
  const last = stream ? seen?.last : first;
  return first && [first.row[0], first.row[1], Math.max((last.tail ?? last.row)[2], first.row[1] + 1)];
}
