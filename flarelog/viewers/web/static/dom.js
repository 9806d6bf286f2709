/**
 * Builds elements of names, attributes and text. Log text, names and peers' sentences enter the page as text nodes,
 * here and in `paint.js`, and in no other way.
 */

const SVG = "http://www.w3.org/2000/svg";

/**
 * An element. `on` holds listeners by event; a property that is null or false is left out, and so is such a child.
 */
export function h(tag, properties = {}, ...children) {
  return dress(document.createElement(tag), properties, children);
}

/** The same for SVG. */
export function s(tag, properties = {}, ...children) {
  return dress(document.createElementNS(SVG, tag), properties, children);
}

/** Gives *element* properties and children, as `h` does. */
export function dress(element, properties, children = []) {
  for (const [name, value] of Object.entries(properties)) {
    if (name === "on") for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children) if (child !== null && child !== undefined && child !== false) element.append(child);
  return element;
}

/** Sets the text of *element* if it differs: a screen reader and a selection notice a text that is set again. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Whether *element* shows something else than *what*, a text, until now; *what* counts as shown from now on. */
export function differs(element, what) {
  const before = element.dataset.is;
  element.dataset.is = what;
  return before !== what;
}

/** Puts *nodes* into *parent*, in this order, without moving a node that is in its place. */
export function arrange(parent, nodes) {
  let at = parent.firstChild;
  for (const node of nodes) {
    if (node === at) at = at.nextSibling;
    else parent.insertBefore(node, at);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

/** Resolves with the next frame, or after 100 ms: a hidden tab has no frames. */
export function frame() {
  return new Promise((done) => {
    const late = setTimeout(done, 100);
    requestAnimationFrame(() => {
      clearTimeout(late);
      done();
    });
  });
}

const LACKS = "M8 2 15 14H1zm-.9 4.5.3 4h1.2l.3-4zm.1 5v1.4h1.6v-1.4z";
const ICONS = {
  live: "M8 3a5 5 0 1 0 0 10A5 5 0 0 0 8 3z",
  quiet: "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zm0 1.6v7.8a3.9 3.9 0 0 1 0-7.8z",
  busy: "M3 9h2.200v4H3zM6.900 6h2.200v7H6.900zM10.800 3H13v10h-2.200z",
  hung: "M4 2h8v2.200L9.200 8l2.800 3.800V14H4v-2.200L6.800 8 4 4.200z",
  waiting: "M8 2.500a5.500 5.500 0 1 0 0 11 5.500 5.500 0 0 0 0-11zM7.300 5h1.400v2.700l2 2-1 1-2.400-2.400z",
  idle: "M5.300 6.900h5.400v2.200H5.300z",
  gone: "M2.500 6.900h11v2.200h-11z",
  silent: "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zm0 1.7a3.8 3.8 0 1 1 0 7.6 3.8 3.8 0 0 1 0-7.6z",
  paused: "M4 3h3v10H4zM9 3h3v10H9z",
  "lost link": "M3.6 2.4 8 6.8l4.4-4.4 1.2 1.2L9.2 8l4.4 4.4-1.2 1.2L8 9.2l-4.4 4.4-1.2-1.2L6.8 8 2.4 3.6z",
  "not stored": "M3.500 2.500h9v11h-9zM5.100 4.100v7.800h5.800V4.100z",
  unreadable: "M3.500 2.500h9v11h-9zM5.100 4.100v7.800h5.800V4.100z",
  complete: "m6.4 12.8-4.2-4.2 1.4-1.4 2.8 2.8 6-6.2 1.4 1.4z",
  gap: LACKS,
  incomplete: LACKS,
  "no receipt": LACKS,
  failed: "M5 1.5h6L14.500 5v6L11 14.500H5L1.500 11V5zM5.300 4.200 4.200 5.300 6.900 8l-2.700 2.700 1.100 1.100L8 9.100l2.700 2.700 1.100-1.100L9.100 8l2.700-2.700-1.100-1.100L8 6.900z",
  open: "M8 4.500a3.500 3.500 0 1 0 0 7 3.500 3.500 0 0 0 0-7z",
};

/** The shape of a standing; the words beside it say the same. */
export function icon(standing) {
  return s(
    "svg",
    { viewBox: "0 0 16 16", class: `icon ${kind(standing)}`, "aria-hidden": "true", focusable: "false" },
    s("path", { d: ICONS[standing] ?? ICONS.open, "fill-rule": "evenodd" }),
  );
}

/** The class of a standing: good, warn, bad or calm. */
export function kind(standing) {
  const kinds = { live: "good", complete: "good", paused: "warn", silent: "warn", hung: "warn", gone: "warn", gap: "warn", incomplete: "warn", "no receipt": "warn", "lost link": "bad", "not stored": "bad", unreadable: "bad", failed: "bad" };
  return kinds[standing] ?? "calm";
}
