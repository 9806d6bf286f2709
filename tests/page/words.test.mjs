import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "./page.mjs";

const words = await load("words.js");
const NOON = Date.UTC(2026, 10, 20, 12);
const at = (text) => words.place(text, NOON);
const time = (text) => ({ time: Date.parse(text) });

function table(name, act, rows) {
  test(name, () => {
    for (const [given, wanted] of rows) assert.deepEqual(act(...[given].flat()), wanted, JSON.stringify(given));
  });
}

table("numbers", words.count, [[0, "0"], [999, "999"], [1000, "1,000"], [1234567, "1,234,567"]]);
table("things", words.several, [[[1, "gap"], "1 gap"], [[0, "gap"], "0 gaps"], [[2000, "gap"], "2,000 gaps"], [[2, "line is", "lines are"], "2 lines are"]]);
table("sizes", words.bytes, [[0, "0\u00a0B"], [999, "999\u00a0B"], [1000, "1.0\u00a0kB"], [99_949, "99.9\u00a0kB"], [99_950, "100\u00a0kB"], [1e9, "1.0\u00a0GB"], [1e18, "1000\u00a0PB"]]);
table("durations", words.lasting, [[-5, "0 s"], [119_000, "119 s"], [120_000, "2 min"], [7_199_000, "119 min"], [7_500_000, "2 h 05"], [172_800_000, "2 d"]]);
table("differences of clocks", words.skew, [[0.4, "0 ms"], [12, "+12 ms"], [-3200, "\u22123.2 s"], [7_500_000, "+2 h 05"]]);
table("names of logs", words.called, [
  [{ log: "a%20b.log" }, "a b.log"],
  [{ log: "a%", name: undefined }, "a%"],
  [{ log: "a%20b", name: "another" }, "another"],
  [{ log: "a%E2%80%AEb%00" }, "a\ufffdb\ufffd"],
]);
table("names that are cut", words.short, [[["abcdefgh", 8], "abcdefgh"], [["abcdefghi", 7], "abc\u2026ghi"], [["abcdefghij", 8], "abcd\u2026hij"]]);
table("what tells names apart", (...names) => words.apart(names), [
  [["rank-0/log.txt", "rank-1/log.txt"], ["rank-0", "rank-1"]],
  [["a/x/log.txt", "a/y/log.txt"], ["x", "y"]],
  [["log.txt", "log.txt.1"], ["log.txt", "log.txt.1"]],
]);
table("places", at, [
  ["1,200", { line: 1200 }],
  ["1_200", { line: 1200 }],
  ["@0", { at: 0 }],
  ["@4096", { at: 4096 }],
  ["50%", { share: 0.5 }],
  ["99.5 %", { share: 0.995 }],
  [" 8:12 ", time("2026-11-20T08:12:00Z")],
  ["08:12:03.5", time("2026-11-20T08:12:03.500Z")],
  ["2026-11-19", time("2026-11-19T00:00:00Z")],
  ["2026-11-19 08:12", time("2026-11-19T08:12:00Z")],
  ["2026-11-19T08:12+01:00", time("2026-11-19T07:12:00Z")],
]);
table("texts that are no places", at, ["", "0", "-1", "x", "1.5", "+5", "#5", "-5%", "line", "08:60", "2026-11-20 25:00:00", "@" + "9".repeat(40), "9".repeat(40), "2026-02-30T00:00:00Z", "12:60", "25:00", "@", "@-1", "2026-02-30", "2026-13-01", "20 November", "%"].map((text) => [text, null]));
