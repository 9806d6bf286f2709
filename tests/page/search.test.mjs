import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { load, serve } from "./page.mjs";

const { Search } = await load("search.js");
const MOST = 1000; // hits of an answer, if the page sets no limit
const FIND = { text: "hit", regex: false, exact: false, scope: "log", only: false };
const A = { site: "s", log: "a" };

mock.timers.enable({ apis: ["setTimeout"] });

/**
 * A server of logs whose hits stand at the given offsets, ten bytes each. `server.asked` collects the requests, and
 * `server.fails` holds what they get instead: an Error, or an object with an error.
 */
function server(logs, { exact = true, sealed = true } = {}) {
  const self = { logs, asked: [], fails: [] };
  serve((where, body) => {
    self.asked.push(body);
    const failed = self.fails.shift();
    if (failed) return failed;
    const others = body.others || !body.streams.length;
    const named = Object.keys(logs).filter((log) => others !== body.streams.some((one) => one.log === log));
    const said = [{ streams: named.map((log) => ({ site: "s", log, sealed })), exact }];
    const rest = [];
    let left = body.counts ? Infinity : (body.limit ?? MOST);
    const each = Math.floor(left / named.length);
    for (const [k, log] of named.entries()) {
      const from = body.streams.find((one) => one.log === log)?.from ?? 0;
      const found = logs[log].filter((at) => at >= from && at < (body.to ?? Infinity));
      const taken = body.last ? found.slice(-left) : found.slice(0, Math.min(left, each));
      if (body.counts) said.push({ counted: [k, found.length] });
      else if (taken.length) said.push({ hits: taken.map((at) => [k, at, at + 10, `hit ${at}`, at]) });
      if (body.last) rest.push([k, from]);
      else if (taken.length < found.length) rest.push([k, found[taken.length]]);
      left -= taken.length;
      said.push({ progress: [k, 1000, Math.max(0, ...logs[log]) + 10 - from] });
    }
    return [...said, { rest }, { done: true, capped: rest.length > 0 && left === 0, cut: 0 }];
  });
  return self;
}

/** A search on the page of log a. `shown` are the hits that it showed; each is on the screen at once, unless *late*. */
function page({ stream = A, late = false } = {}) {
  const self = { shown: [], said: "", none: 0 };
  self.search = new Search("r", {
    say: (text) => (self.said = text),
    found: () => {},
    none: () => (self.none += 1),
    show: (hit) => {
      self.shown.push(`${hit.log} ${hit.offset}`);
      if (!late) self.search.reached({ of: hit, at: hit.offset, on: true });
    },
  });
  self.search.stream = stream;
  self.search.place = { of: stream, at: 0, on: false };
  self.ask = async (find = {}, streams = stream && [stream], goes = true) => {
    self.search.ask({ ...FIND, ...find }, streams, goes);
    await settled(self.search);
  };
  self.press = async (...directions) => {
    for (const direction of directions) self.search.step(direction);
    await settled(self.search);
  };
  return self;
}

/** Waits until no request of *search* is under way. */
async function settled(search) {
  do for (let turn = 0; turn < 30; turn += 1) await new Promise((done) => setImmediate(done));
  while (["looking", "counting"].includes(search.state));
}

const every = (count) => Array.from({ length: count }, (_, at) => 10 * at);

test("the first hit is shown, and steps go round", async () => {
  server({ a: every(3) });
  const { shown, search, ask, press } = page();
  await ask();
  await press(1);
  await press(1);
  await press(1);
  await press(-1);
  assert.deepEqual(shown, ["a 0", "a 10", "a 20", "a 0", "a 20"]);
  assert.deepEqual([search.state, search.walk, search.presses], ["known", "resting", 0]);
});

test("each press counts, however late a hit is on the screen", async () => {
  server({ a: every(50) });
  const { shown, search, ask, press } = page({ late: true });
  await ask();
  await press(1);
  assert.deepEqual([shown, search.walk], [["a 0"], "showing"]);
  search.reached({ of: A, at: 0, on: true });
  await press(1, 1, 1); // presses that the page held until it arrived
  assert.deepEqual(shown, ["a 0", "a 40"]);
  await press(1);
  mock.timers.tick(1000); // a hit that never comes holds up no other
  await settled(search);
  assert.deepEqual(shown.at(-1), "a 50");
});

test("a search begins at the place of the page, and its hits have numbers once those above are known", async () => {
  const { asked } = server({ a: every(3000) });
  const self = page();
  self.search.place = { of: A, at: 29_000, on: true };
  await self.ask();
  assert.deepEqual([self.shown, self.said, asked[0].streams[0].from], [["a 29000"], "Hit 2,901 of 3,000", 29_000]);
  await self.press(-1);
  assert.deepEqual([self.shown.at(-1), self.said], ["a 28990", "Hit 2,900 of 3,000"]);
});

test("hits beyond 10,000 are counted, and fetched when a step needs them", async () => {
  const { asked } = server({ a: every(25_000) });
  const self = page();
  await self.ask();
  assert.deepEqual([self.said, self.search.state], ["Hit 1 of 25,000", "partly"]);
  assert.deepEqual(asked.filter(({ counts }) => counts).map(({ streams }) => streams[0].from), [100_000]); // no byte is read twice
  self.search.presses = 10_004; // together with the next one
  await self.press(1);
  assert.deepEqual([self.shown.at(-1), self.said], ["a 100050", "Hit 10,006 of 25,000"]);
  self.search.presses = -10_005;
  await self.press(-1);
  assert.deepEqual([self.shown.at(-1), self.said], ["a 249990", "One of 25,000 hits"]);
});

test("from the middle of a log, what was not searched is counted", async () => {
  const { asked } = server({ a: every(25_000) });
  const self = page();
  self.search.place = { of: A, at: 200_000, on: true };
  await self.ask();
  assert.deepEqual([self.shown, self.said], [["a 200000"], "One of 25,000 hits"]);
  assert.deepEqual(asked.filter(({ counts }) => counts).map(({ streams, to }) => [streams[0].from, to]), [[100_000, 200_000]]);
  const other = page();
  other.search.place = { of: A, at: 100_000, on: true };
  await other.ask();
  assert.deepEqual([other.shown, other.said], [["a 100000"], "One of 25,000 hits"]); // two parts of it were not searched
});

test("hits are found and counted in the range of the page alone", async () => {
  server({ a: every(25_000) });
  const self = page();
  self.search.limits.set("s/a", [50_000, 200_000]);
  await self.ask();
  assert.deepEqual([self.shown, self.said], [["a 50000"], "Hit 1 of 15,000"]);
});

test("hits that only the browser can find keep their +", async () => {
  const { asked } = server({ a: every(25_000) }, { exact: false });
  const self = page();
  await self.ask();
  assert.deepEqual([self.said, asked.some(({ counts }) => counts)], ["Hit 1 of 10,000+", false]);
});

test("a server that does not count leaves the +", async () => {
  const it = server({ a: every(25_000) });
  const self = page();
  it.fails[1] = { error: "no" };
  await self.ask();
  assert.deepEqual([self.said, self.search.state], ["Hit 1 of 10,000+", "partly"]);
});

test("the whole run: the log on the page first, then the others by their first hits", async () => {
  server({ a: every(3), b: [7, 9], c: [5] });
  const self = page();
  await self.ask({ scope: "run" }, null);
  assert.equal(self.said, "Hit 1 of 3 in this log, 6 in the run");
  for (let step = 0; step < 6; step += 1) await self.press(1);
  assert.deepEqual(self.shown, ["a 0", "a 10", "a 20", "c 5", "b 7", "b 9", "a 0"]);
});

test("by time: a step goes to the next hit of any log", async () => {
  server({ a: every(2), b: [7, 19] });
  const self = page({ stream: null });
  await self.ask({ scope: "time" }, null);
  assert.equal(self.said, "4 lines");
  for (let step = 0; step < 4; step += 1) await self.press(1);
  assert.deepEqual([self.shown, self.said], [["a 0", "b 7", "a 10", "b 19"], "Hit 4 of 4"]);
});

test("by time: the list has the first hits of all logs, also where one of them has more than are fetched", async () => {
  const often = every(20_000);
  server({ a: often, b: often.map((at) => at + 1), c: [7, 150_001, 150_003] });
  const self = page({ stream: null });
  await self.ask({ scope: "time" }, null);
  const first = (most) => self.search.hits.all.slice(0, Math.min(most, self.search.hits.sure)).map(({ offset }) => offset);
  const wanted = [...often, ...often.map((at) => at + 1), 7, 150_001, 150_003].sort((one, other) => one - other);
  assert.deepEqual([self.said, first(200)], ["40,003 lines", wanted.slice(0, 200)]);
  self.search.list(31_000);
  await settled(self.search);
  assert.ok(first(31_000).length > 200 && first(31_000).every((offset, at) => offset === wanted[at]));
  while (first(31_000).length < 31_000) {
    self.search.list(31_000);
    await settled(self.search);
  }
  assert.deepEqual(first(31_000), wanted.slice(0, 31_000));
});

test("a field of JSON is compared by the server", async () => {
  const { asked } = server({ a: every(3) });
  const self = page();
  await self.ask({ text: '"n": 1', exact: true, field: true });
  assert.deepEqual([asked[0].field, asked[0].literals], ['"n": 1', undefined]);
});

test("a search that came before the page knows its logs waits for them", async () => {
  const { asked } = server({ a: every(3), b: [5] });
  const self = page({ stream: null });
  self.search.ask(FIND, [], false, true);
  await self.press(1);
  assert.deepEqual([asked, self.said, self.search.state], [[], "", "early"]);
  await self.ask({}, [A, { site: "s", log: "b" }], false);
  assert.deepEqual([self.said, self.search.state], ["4 lines", "known"]);
});

test("a search without a hit in the log on the page says so and goes nowhere", async () => {
  server({ a: [], b: [1] });
  const self = page();
  await self.ask({ scope: "run" }, null);
  assert.deepEqual([self.shown, self.none, self.said, self.search.presses], [[], 1, "1 line", 0]);
  await self.press(1);
  assert.deepEqual(self.shown, ["b 1"]);
});

test("a request without an answer is repeated, and steps wait for it", async () => {
  const it = server({ a: every(3) });
  const self = page();
  it.fails = [new TypeError("lost"), { error: "busy", status: 503 }];
  await self.ask();
  assert.deepEqual([self.search.state, self.said], ["waiting", "flarelog web does not answer; trying again"]);
  await self.press(1);
  it.fails = [];
  mock.timers.tick(1000);
  await settled(self.search);
  assert.deepEqual([self.shown, self.said], [["a 10"], "Hit 2 of 3"]);
});

test("a log that cannot be read for a moment is searched again", async () => {
  const it = server({ a: every(3) });
  const self = page();
  it.fails = [[{ streams: [{ ...A, sealed: true }], exact: true }, { k: 0, error: "the receiver is away", again: true }, { rest: [[0, 0]] }, { done: true, capped: false, cut: 0 }]];
  await self.ask();
  assert.equal(self.search.state, "waiting");
  mock.timers.tick(1000);
  await settled(self.search);
  assert.deepEqual([self.shown, self.said], [["a 0"], "Hit 1 of 3"]);
});

test("a refusal is said, and a later search works", async () => {
  const it = server({ a: every(3) });
  const self = page();
  it.fails = [{ error: "the pattern needs google-re2" }];
  await self.ask();
  await self.press(1);
  assert.deepEqual([self.search.state, self.said, self.shown], ["refused", "the pattern needs google-re2", []]);
  await self.ask();
  assert.deepEqual([self.said, self.shown], ["Hit 1 of 3", ["a 0"]]);
});

test("what is no pattern is an error, and no search is under way", () => {
  const { search } = page();
  assert.throws(() => search.ask({ ...FIND, text: "(", regex: true }, [A], true), /^SyntaxError: Invalid regular expression: Unterminated group$/);
  assert.equal(search.state, "off");
});

test("a newer search ends the older one", async () => {
  const it = server({ a: every(3) });
  const self = page();
  self.search.ask({ ...FIND, text: "older" }, [A], true);
  await self.ask();
  assert.deepEqual([self.shown, self.said, it.asked.length], [["a 0"], "Hit 1 of 3", 2]);
});

test("a search that was closed shows no hit any more", async () => {
  server({ a: every(3) });
  const self = page();
  self.search.ask(FIND, [A], true);
  self.search.turn("closed");
  await settled(self.search);
  await self.press(1);
  assert.deepEqual([self.shown, self.search.state, self.search.walk], [[], "off", "resting"]);
});

test("hits that came after the search are found by a step, and by a list that is kept up to date", async () => {
  const it = server({ a: every(3) }, { sealed: false });
  const self = page();
  await self.ask();
  await self.press(1, 1);
  it.logs.a = every(5);
  self.search.done -= 2001;
  await self.press(1);
  assert.deepEqual([self.shown.at(-1), self.said], ["a 30", "Hit 4 of 5"]);
  it.logs.a = every(6);
  self.search.refresh();
  await settled(self.search);
  assert.equal(self.said, "Hit 4 of 5"); // too early
  self.search.done -= 2001;
  self.search.refresh();
  await settled(self.search);
  assert.deepEqual([self.said, self.search.state], ["Hit 4 of 6", "known"]);
});

test("the level is part of the search", async () => {
  const { asked } = server({ a: every(3) });
  const self = page();
  self.search.level = "error";
  await self.ask();
  assert.equal(asked[0].level, "error");
});
