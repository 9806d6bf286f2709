import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "./page.mjs";

const { BAR, ERROR, Lines, NOTE, TRACE, key } = await load("lines.js");
const BEGINS = 256;

/** A row of log *k* at *offset*, of ten bytes. */
const row = (offset, text = `line ${offset / 10}`, flags = 0, k = 0, time = null) => [k, offset, offset + 10, text, flags, time];
const rows = (from, to) => Array.from({ length: to - from }, (_, at) => row(10 * (from + at)));
const offsets = (lines) => lines.rows.map((one) => one[1]);
const numbers = (lines) => lines.view().map(({ number }) => number);
const seen = (lines) => lines.view().map((item) => item.row[3]);

/** Lines at a place: the rows from *from* to *to*, the first with its number. */
function held(from, to, { level = 0, ...more } = {}) {
  const lines = Object.assign(new Lines(), { level });
  lines.replace(rows(from, to), { from: 10 * from, to: 10 * to, line: from + 1, ...more });
  return lines;
}

test("a row that comes again replaces the earlier one", () => {
  const lines = held(0, 3);
  assert.equal(lines.append([row(10, "new"), row(20), row(30)]), 1);
  assert.deepEqual(seen(lines), ["line 0", "new", "line 2", "line 3"]);
  assert.deepEqual(numbers(lines), [1, 2, 3, 4]);
});

test("a note comes before the line at its offset and has no number", () => {
  const lines = held(0, 2);
  lines.append([row(20, "a gap", NOTE), row(20), row(20, "another", NOTE)]);
  assert.deepEqual(seen(lines), ["line 0", "line 1", "a gap", "another", "line 2"]);
  assert.deepEqual(numbers(lines), [1, 2, 3, 3, 3]);
});

test("rows above keep the numbers of those below", () => {
  const lines = held(5, 8);
  assert.equal(lines.prepend(rows(2, 6), { from: 20 }), 3);
  assert.deepEqual(numbers(lines), [3, 4, 5, 6, 7, 8]);
  assert.equal(lines.from, 20);
});

test("lines that the level leaves out are counted", () => {
  const lines = Object.assign(new Lines(), { level: ERROR });
  lines.replace([row(50, "error", ERROR), row(90, "error", ERROR)], { from: 0, to: 120, line: 1, left: [5, 3, 2] });
  assert.deepEqual(numbers(lines), [6, 10]);
  assert.equal(lines.append([row(120), row(130, "error", ERROR)]), 1);
  assert.deepEqual(numbers(lines), [6, 10, 14]);
});

test("rows that are dropped at one end leave the numbers of the others", () => {
  const lines = held(0, 1000);
  assert.equal(lines.trimHead(100).length, 900);
  assert.deepEqual([lines.number, lines.from, offsets(lines)[0]], [901, 9000, 9000]);
  lines.prepend(rows(800, 900), { from: 8000 });
  assert.deepEqual([lines.number, lines.view()[0].row[1]], [801, 8000]);
  assert.equal(lines.trimTail(50).length, 150);
  assert.equal(lines.to, 8500);
  assert.equal(lines.append(rows(850, 853)), 3);
  assert.equal(numbers(lines).at(-1), 853);
});

test("a small surplus is kept: rows are dropped many at a time", () => assert.deepEqual(held(0, 120).trimHead(100), []));

test("rows at the end that may change have no number and give way to their lines", () => {
  const lines = held(0, 2, { open: [row(20, "10 %", BAR)] });
  assert.deepEqual(seen(lines), ["line 0", "line 1", "10 %"]);
  assert.equal(numbers(lines)[2], null);
  lines.reopen(0, [row(20, "20 %", BAR)]);
  assert.equal(seen(lines)[2], "20 %");
  lines.append([row(20, "done")]);
  assert.deepEqual(seen(lines), ["line 0", "line 1", "done"]);
});

test("a traceback is folded into its first row until it is opened", () => {
  const lines = new Lines();
  const text = [row(0), row(10, "Traceback", ERROR | BEGINS), ...[20, 30, 40].map((at) => row(at, `frame ${at}`, ERROR | TRACE)), row(50, "ValueError", ERROR | TRACE), row(60)];
  lines.replace(text, { from: 0, to: 70, line: 1 });
  assert.deepEqual(lines.view().map(({ row: [, at], number, hidden, tail }) => [at, number, hidden, tail?.[3]]), [[0, 1, 0, undefined], [10, 2, 4, "ValueError"], [60, 7, 0, undefined]]);
  assert.deepEqual([lines.find(40), lines.find(60), lines.head(text[3])[1]], [1, 2, 10]);
  lines.unfold(30);
  assert.deepEqual(numbers(lines), [1, 2, 3, 4, 5, 6, 7]);
  assert.deepEqual(lines.between(key(text[1]), key(text[3])).length, 3);
});

test("a traceback of three lines is not folded", () => {
  const lines = new Lines();
  lines.replace([row(0, "Traceback", ERROR | BEGINS), row(10, "frame", ERROR | TRACE), row(20, "ValueError", ERROR | TRACE)], { to: 30 });
  assert.equal(lines.view().length, 3);
});

test("live rows of merged logs go to their places by time, and never before an earlier row of their log", () => {
  const lines = Object.assign(new Lines(), { timed: true, merged: true });
  lines.replace([row(0, "a1", 0, 0, 1), row(0, "b5", 0, 1, 5)], { keys: [1, 5] });
  lines.append([row(10, "a3", 0, 0, 3), [...row(10, "b4", 0, 1, 4), [], 5], row(20, "a5", 0, 0, 5)], [], { live: true });
  assert.deepEqual(seen(lines), ["a1", "a3", "a5", "b5", "b4"]);
  const late = [];
  lines.append([row(0, "c0", 0, 2, 0)], [], { live: true, late });
  assert.deepEqual(late.map((one) => one[3]), ["c0"]);
});

test("whatever pieces rows come in, the view is the same", () => {
  const all = [...rows(0, 30), row(300, "a gap", NOTE), ...rows(30, 60)];
  for (let seed = 1; seed < 30; seed += 1) {
    const lines = held(0, 0);
    for (let at = 0; at < all.length; ) {
      const back = Math.min(at, (seed * 7 + at) % 4); // a resumed stream sends some rows again
      const size = 1 + ((seed * 13 + at * 5) % 9);
      lines.append(all.slice(at - back, at + size).map((one) => [...one]));
      at += size;
    }
    assert.deepEqual(seen(lines), all.map((one) => one[3]), `${seed}`);
    assert.deepEqual(numbers(lines).at(-1), 60);
  }
});
