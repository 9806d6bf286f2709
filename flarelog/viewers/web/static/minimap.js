/**
 * The whole log from top to bottom beside its rows: the part on the screen, and ticks for hits. It is also the
 * list's scroll bar, over all bytes of the log, not over the rows that the page holds.
 */

import { dress } from "./dom.js";
import { Drawn } from "./drawn.js";

const THUMB = 14; // pixels of the thumb

export class MiniMap extends Drawn {
  constructor() {
    super();
    this.seen = [0, 1]; // shares of the log
    this.shown = [-1, -1]; // the shares as drawn: a change of less than half a pixel is not drawn
    this.high = Infinity;
    this.ticks = []; // shares
  }

  connectedCallback() {
    if (!this.made({ "aria-hidden": "true" })) return;
    dress(this, { role: "scrollbar", "aria-orientation": "vertical", "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": 0 }, [this.canvas]);
    this.addEventListener("pointerdown", (event) => this.pressed(event));
    this.addEventListener("pointermove", (event) => this.hold !== undefined && this.dragged(event));
    for (const end of ["pointerup", "pointercancel"]) this.addEventListener(end, () => (this.hold = undefined));
    this.addEventListener("wheel", (event) => this.dispatchEvent(new CustomEvent("wheeled", { detail: event.deltaY })), { passive: true });
  }

  show(from, to) {
    if (this.seen[0] === from && this.seen[1] === to) return;
    this.seen = [from, to];
    const now = String(Math.round(to * 100));
    if (this.getAttribute("aria-valuenow") !== now) this.setAttribute("aria-valuenow", now);
    if (this.high * (Math.abs(from - this.shown[0]) + Math.abs(to - this.shown[1])) > 0.5) this.draw();
  }

  /** Marks *shares* of the log by ticks. */
  mark(shares) {
    this.ticks = shares;
    this.draw();
  }

  thumb() {
    const height = this.clientHeight;
    const size = Math.max(THUMB, (this.seen[1] - this.seen[0]) * height);
    return [Math.min(height - size, this.seen[0] * height), size];
  }

  pressed(event) {
    if (event.button !== 0) return;
    const y = event.clientY - this.getBoundingClientRect().top;
    const [top, size] = this.thumb();
    this.hold = y >= top && y <= top + size ? y - top : size / 2;
    this.setPointerCapture(event.pointerId);
    this.dragged(event);
    event.preventDefault();
  }

  dragged(event) {
    const [, size] = this.thumb();
    const y = event.clientY - this.getBoundingClientRect().top - this.hold;
    const share = Math.min(1, Math.max(0, y / Math.max(1, this.clientHeight - size)));
    this.show(share * (1 - size / this.clientHeight), share + (1 - share) * (size / this.clientHeight));
    this.dispatchEvent(new CustomEvent("drag", { detail: share }));
  }

  get held() {
    return this.hold !== undefined;
  }

  render() {
    const [width, height] = [this.clientWidth, this.clientHeight];
    [this.shown, this.high] = [this.seen, height];
    const [pen, ink] = this.pen(width, height);
    const [top, size] = this.thumb();
    pen.fillStyle = ink("--thumb");
    pen.beginPath();
    pen.roundRect(3, top + 1, width - 6, size - 2, 4);
    pen.fill();
    pen.fillStyle = ink("--tick");
    for (const share of this.ticks) pen.fillRect(2, Math.min(height - 2, share * height), width - 4, 2);
  }
}

customElements.define("mini-map", MiniMap);
