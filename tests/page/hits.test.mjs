/** The hit next to a place: it is certain, or the page learns what to search for it. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "./page.mjs";

const { Hits } = await load("hits.js");
const A = { at: [[10, 1000], [20, 2000], [30, 3000]], searched: [[0, Infinity]] };
const B = { at: [[5, 1500], [6, null], [7, 2500]], searched: [[0, Infinity]] };
const NOT_TO_THE_END = { at: [[10, 1000], [20, 2000]], searched: [[0, 25]] };
const IN_THE_MIDDLE = { at: [[20, 2000]], searched: [[15, 25]] };
const UNKNOWN = { at: [], searched: [] };
const NOTHING = { at: [], searched: [[0, Infinity]] };

function hitsOf(order, logs, listed = true) {
  const hits = new Hits(order, listed ? [] : null);
  for (const [log, { at, searched }] of Object.entries(logs)) {
    const part = hits.part({ site: "s", log });
    hits.add(part, at.map(([offset, time]) => ({ offset, end: offset + 1, time })));
    for (const [from, to] of searched) part.cover(from, to);
  }
  return hits;
}

/** The hit beside *at* of the log *of*, as "LOG OFFSET"; null: there is none; or what is to be searched. */
function beside(hits, of, at, direction = 1, on = true) {
  const { hit, lacks, at: from } = hits.beside({ of: of && { site: "s", log: of }, at, on }, direction);
  return hit === undefined ? { lacks: lacks?.map(({ log }) => log) ?? "all", ...(from !== undefined && { from }) } : hit && `${hit.log} ${hit.offset}`;
}

for (const [name, logs, place, wanted] of [
  ["the next one", { a: A }, ["a", 10], "a 20"],
  ["the one at the place", { a: A }, ["a", 10, 1, false], "a 10"],
  ["the first after the last", { a: A }, ["a", 30], "a 10"],
  ["the last before the first", { a: A }, ["a", 10, -1], "a 30"],
  ["then the next log", { a: A, b: B }, ["a", 30], "b 5"],
  ["then the first log", { a: A, b: B }, ["b", 7], "a 10"],
  ["logs by their first hits", { b: A, a: B }, ["b", 30], "a 5"],
  ["from a log without hits", { a: A, b: NOTHING }, ["b", 9], "a 10"],
  ["no hit at all", { a: NOTHING }, ["a", 3], null],
  ["known before the end", { a: NOT_TO_THE_END }, ["a", 10], "a 20"],
  ["unknown beyond", { a: NOT_TO_THE_END }, ["a", 20], { lacks: ["a"], from: 25 }],
  ["an unknown place", { a: NOT_TO_THE_END }, ["a", 90], { lacks: ["a"], from: 90 }],
  ["unknown before", { a: IN_THE_MIDDLE }, ["a", 20, -1], { lacks: ["a"], from: 15 }],
  ["another log is not needed", { a: A, b: UNKNOWN }, ["a", 20], "a 30"],
  ["another log is needed", { a: A, b: UNKNOWN }, ["a", 30], { lacks: ["b"] }],
]) test(`log after log: ${name}`, () => assert.deepEqual(beside(hitsOf("log", logs), ...place), wanted));

for (const [name, logs, place, wanted] of [
  ["the first of all", { a: A, b: B }, [null, 0, 1, false], "a 10"],
  ["another log", { a: A, b: B }, ["a", 10], "b 5"],
  ["one without a time", { a: A, b: B }, ["b", 5], "b 6"],
  ["then by time", { a: A, b: B }, ["b", 6], "a 20"],
  ["the first after the last", { a: A, b: B }, ["a", 30], "a 10"],
  ["the last of all", { a: A, b: B }, ["a", 10, -1], "a 30"],
  ["one is certain", { a: A, b: NOT_TO_THE_END }, ["a", 10], "b 10"],
  ["one is not", { a: A, b: NOT_TO_THE_END }, ["b", 20], { lacks: ["b"] }],
  ["an unknown log", { a: A, b: UNKNOWN }, ["a", 10], { lacks: ["b"] }],
]) test(`by time: ${name}`, () => assert.deepEqual(beside(hitsOf("time", logs), ...place), wanted));

test("the list is by time, and a date in a text moves no other hit", () => {
  const odd = { at: [[1, 1100], [2, 9e12], [3, 1200], [4, null]], searched: [[0, Infinity]] };
  const hits = hitsOf("log", { a: A, b: B, c: odd });
  assert.deepEqual(hits.all.map(({ log, offset }) => log + offset), ["a10", "c1", "c2", "c3", "c4", "b5", "b6", "a20", "b7", "a30"]);
  assert.ok(hits.whole);
});

test("logs that are not named yet may have the next hit", () => {
  const hits = hitsOf("log", { a: A }, false);
  assert.deepEqual([beside(hits, "a", 30), hits.whole, hits.counted], [{ lacks: "all" }, false, false]);
});

test("hits are counted as far as they are known, or as the server counted them", () => {
  const hits = hitsOf("log", { a: A, b: NOT_TO_THE_END });
  assert.deepEqual([hits.sum, hits.counted], [5, false]);
  hits.part({ site: "s", log: "b" }).total = 700;
  assert.deepEqual([hits.sum, hits.counted, hits.whole], [703, true, false]);
});

for (const [name, logs, sure] of [
  ["all logs are known", { a: A, b: B }, 6],
  ["a log is known up to its second hit", { a: A, b: NOT_TO_THE_END }, 4],
  ["nothing is known of a log", { a: A, b: UNKNOWN }, 0],
  ["the beginning of a log is unknown", { a: A, b: IN_THE_MIDDLE }, 0],
]) test(`hits have their places in time: ${name}`, () => {
  const hits = hitsOf("time", logs);
  assert.equal(hits.sure, sure);
  assert.deepEqual(hits.unsure(9)?.lacks.map(({ log }) => log), sure < 6 ? ["b"] : undefined);
  assert.equal(hits.unsure(sure), null);
});
