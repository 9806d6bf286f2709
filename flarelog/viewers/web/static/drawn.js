/** Elements with a canvas that fills them: drawn anew when asked, and when their size or the colours of the system change. */

import { h } from "./dom.js";
import { heard } from "./settings.js";

export class Drawn extends HTMLElement {
  /** Makes the canvas; false: it is there already. */
  made(properties) {
    if (this.canvas) return false;
    this.canvas = h("canvas", properties);
    this.inks = {}; // by name, of the present theme
    this.sized = new ResizeObserver(() => this.draw());
    this.sized.observe(this);
    this.over = new AbortController();
    const inked = () => {
      this.inks = {};
      this.draw();
    };
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", inked, { signal: this.over.signal });
    heard("theme", inked, this.over.signal);
    return true;
  }

  disconnectedCallback() {
    this.sized.disconnect();
    this.over.abort();
  }

  /** Draws with the next frame, once. */
  draw() {
    if (this.drawing) return;
    this.drawing = true;
    requestAnimationFrame(() => {
      this.drawing = false;
      if (this.isConnected) this.render();
    });
  }

  /** A pen for the empty canvas, of so many pixels, and the colours by their names. */
  pen(width, height) {
    const scale = devicePixelRatio || 1;
    const pen = this.canvas.getContext("2d");
    const size = [Math.round(width * scale), Math.round(height * scale)];
    if (this.canvas.width !== size[0] || this.canvas.height !== size[1]) [this.canvas.width, this.canvas.height] = size;
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, height);
    return [pen, (name) => (this.inks[name] ??= this.ink(name))];
  }

  /** The colour *name* of the style sheet, whose value there names those of both themes. */
  ink(name) {
    this.canvas.style.color = `var(${name})`;
    return getComputedStyle(this.canvas).color;
  }
}
