import assert from "node:assert/strict";
import { test } from "node:test";

import { load } from "./page.mjs";

const { roomFor } = await load("room.js");

for (const [what, taken, at, expected] of [
  ["before its place", [[300, 310]], 300, 200],
  ["after it where there is no room before", [], 50, 50],
  ["after a mark that stands there", [[44, 56], [400, 412]], 50, 56],
  ["between two marks that are far enough apart", [[44, 56], [100, 112], [240, 252]], 50, 112],
  ["after marks that lie over each other", [[60, 200], [70, 80], [44, 56]], 50, 200],
  ["nowhere, rather than over a mark", [[44, 56], [150, 162], [250, 262], [350, 362], [440, 452]], 50, null],
  ["nowhere beyond the end", [[0, 420]], 50, null],
  ["not before its place over a mark", [[250, 262], [294, 306]], 300, 306],
]) test(`a text stands ${what}`, () => assert.equal(roomFor(100, taken, 0, 500, at), expected));
