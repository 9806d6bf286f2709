/**
 * Builds elements of names, attributes and text. Log text, names and peers' sentences enter the page as text nodes,
 * here and in `paint.js`, and in no other way.
 */

import { KINDS, SHAPES } from "./shapes.js";

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

/** The shape of a standing; the words beside it say the same. */
export function icon(standing) {
  return s(
    "svg",
    { viewBox: "0 0 16 16", class: `icon ${kind(standing)}`, "aria-hidden": "true", focusable: "false" },
    s("path", { d: SHAPES[standing] ?? SHAPES.open, "fill-rule": "evenodd" }),
  );
}

/** The class of a standing: good, warn, bad or calm. */
export function kind(standing) {
  return KINDS[standing] ?? "calm";
}
