import assert from "node:assert/strict";
import { test } from "node:test";

import { load } from "./page.mjs";

const { reordered } = await load("order.js");
const names = ({ order }) => [...order.keys()].join(" ");
const first = reordered(null, [["a", 5], ["b", 5], ["c", 1], ["d", 9]], false);

test("at first the worst sites come first, and the others by name", () => assert.equal(names(first), "c a b d"));

test("a site whose standing is the same stays, though it stood at another place by chance", () => {
  const late = reordered(new Map([["d", { place: 9, at: 0 }], ["a", { place: 5, at: 1 }]]), [["a", 5], ["d", 9]], true);
  assert.equal(names(late), "d a");
});

test("a site that gets worse goes up alone, once rows may move", () => {
  const sites = [["a", 5], ["b", 5], ["c", 1], ["d", 0]];
  const waits = reordered(first.order, sites, false);
  assert.equal(names(waits), "c a b d");
  assert.equal(waits.sorted, false);
  const moved = reordered(waits.order, sites, true);
  assert.equal(names(moved), "d c a b");
  assert.equal(moved.sorted, true);
});

test("a site that gets better goes below those as bad as it is", () => {
  assert.equal(names(reordered(first.order, [["a", 5], ["b", 5], ["c", 5], ["d", 9]], true)), "a b c d");
});

test("new sites come last until rows may move, and sites that are gone leave", () => {
  const sites = [["a", 5], ["b", 5], ["d", 9], ["e", 0]];
  const waits = reordered(first.order, sites, false);
  assert.equal(names(waits), "a b d e");
  assert.equal(names(reordered(waits.order, sites, true)), "e a b d");
});
