import assert from "node:assert/strict";
import { test } from "node:test";
import { load, serve } from "./page.mjs";

const { Merged, OneLog, nextError } = await load("source.js");
const { ERROR, Lines, NOTE, TRACE, timeOf } = await load("lines.js");
const STREAM = { run: "r", site: "s", log: "log.txt" };
const LENGTH = 1000; // bytes of a log, whose lines have ten each

/** Answers as the server does about a log of LENGTH bytes, with errors at *errors*. Collects what was asked. */
function log(errors = [], traces = []) {
  const asked = [];
  serve((where, body) => {
    asked.push(body);
    const flags = (at) => (errors.includes(at) ? ERROR : traces.includes(at) ? ERROR | TRACE : 0);
    const every = Array.from({ length: LENGTH / 10 }, (_, at) => [0, 10 * at, 10 * at + 10, `line ${at}`, flags(10 * at)]).filter((row) => !body.level || row[4]);
    const from = body.end ? LENGTH : (body.at ?? 0);
    const rows = [...every.filter((row) => row[1] < from).slice(-(body.before ?? 0) || Infinity), ...every.filter((row) => row[1] >= from).slice(0, body.rows)];
    const cut = body.rows && every.filter((row) => row[1] >= from).length > body.rows;
    return { stream: { ...STREAM, begun: 7 }, rows, from: rows[0]?.[1] ?? from, to: cut ? rows.at(-1)[2] : LENGTH, first: 0, committed: LENGTH, sealed: true, line: 1, about: false };
  });
  return asked;
}

function held(from, to) {
  const lines = new Lines();
  lines.replace([], { from, to });
  return lines;
}

test("a log that began again is another one: later requests name the time of its beginning", async () => {
  const asked = log();
  const source = new OneLog(STREAM);
  await source.open({ end: true });
  await source.later(held(0, 500));
  assert.deepEqual([asked[0].stream, asked[1].stream.begun], [STREAM, 7]);
});

test("nothing is asked for beyond the ends", async () => {
  const asked = log();
  const source = new OneLog(STREAM);
  await source.open({ at: 500 });
  assert.deepEqual([await source.earlier(held(0, 500)), await source.later(held(0, LENGTH)), asked.length], [null, null, 1]);
  assert.equal(source.unseen(held(200, 700)), 500);
  assert.deepEqual([source.share(-5), source.share(250), source.share(5000)], [0, 0.25, 1]);
});

test("an answer that is older than the stream makes no log shorter", async () => {
  log();
  const source = new OneLog(STREAM);
  source.at(new Lines(), [[0, 1200, 2000]]);
  await source.open({ at: 0 });
  assert.equal(source.state.committed, 2000);
});

for (const [name, errors, traces, from, wanted] of [
  ["the one at the place", [300], [], [300, 300], 300],
  ["the next one", [300, 500], [], [300, 310], 500],
  ["far below", [980], [], [0, 0], 980],
  ["none", [300], [], [310, 310], null],
  ["not the traceback's own lines", [300, 500], [310, 320], [300, 310], 500],
  ["beyond a traceback of many lines", [300, 900], Array.from({ length: 50 }, (_, at) => 310 + 10 * at), [300, 310], 900],
])
  test(`the next error: ${name}`, async () => {
    log(errors, traces);
    assert.equal((await nextError(STREAM, ...from))?.[1] ?? null, wanted);
  });

/** Answers about merged logs: *logs* have a name and whether they repeat another one. */
function merged(logs, rows = [[0, 0, 10, "a", 0]]) {
  const asked = [];
  serve((where, body) => {
    asked.push(body ?? where);
    if (!body) return { sites: [{ site: "s", streams: logs.map((log) => ({ sealed: true, committed: 100, ...log })) }], copies: "1 log repeats another." };
    return { streams: (body.streams ?? []).map((one) => ({ ...one, begun: 7 })), rows, before: [0], after: [20], ended: [true], over: true };
  });
  return asked;
}

test("logs that repeat another are merged only if they are named", async () => {
  const asked = merged([{ log: "a" }, { log: "b", copy: true }]);
  const source = new Merged({ run: "r", order: "time" });
  await source.open({ end: true });
  assert.deepEqual([asked.at(-1).streams.map(({ log }) => log), source.copies], [["a"], "1 log repeats another."]);
  const named = new Merged({ run: "r", order: "time", streams: [{ site: "s", log: "b" }] });
  await named.open({ end: true });
  assert.deepEqual([asked.at(-1).streams.map(({ log }) => log), named.copies], [["b"], ""]);
});

test("rows in the order of their arrival have its times", async () => {
  const rows = [[0, 0, 5, "one", 0, 1000], [0, 5, 9, "two", 0]];
  serve((where) => (where.startsWith("/api/run") ? { sites: [{ site: "s", number: 0, streams: [{ log: "a", committed: 9 }] }] } : { rows, keys: [], arrivals: [7000, 8000], before: [0], after: [18], over: true, ended: [true], streams: [{ site: "s", log: "a" }] }));
  const found = await new Merged({ run: "r", order: "arrival" }).open({ start: true });
  assert.deepEqual(found.rows.map((row) => timeOf(row)), [7000, 8000]);
  assert.deepEqual([[0, 0, 5, "one", 0, 1000], [0, 5, 9, "two", 0]].map(timeOf), [1000, undefined]);
});

test("at most 64 logs are merged, and the others are counted", async () => {
  const asked = merged(Array.from({ length: 70 }, (_, at) => ({ log: `log-${at}` })));
  const source = new Merged({ run: "r", order: "time" });
  await source.open({ end: true });
  assert.deepEqual([asked.at(-1).streams.length, source.left], [64, 6]);
});

test("a time behind all lines is the end", async () => {
  merged([{ log: "a" }], []);
  const source = new Merged({ run: "r", order: "time" });
  assert.ok((await source.open({ time: 9e12 })).past);
  assert.ok(source.ends());
});

test("rows that were given up are asked for again", async () => {
  merged([{ log: "a" }]);
  const source = new Merged({ run: "r", order: "time" });
  await source.open({ end: true });
  assert.ok(source.ends());
  source.forgot([], [[0, 4, 10, "a", 0], [0, 4, 4, "a gap", NOTE]]);
  assert.deepEqual([source.after, source.ends()], [[8], false]);
});

test("a line of merged logs is opened at its place, and no line is shown out of the range", async () => {
  const asked = merged([{ log: "a" }]);
  const source = new Merged({ run: "r", order: "time" });
  await source.open({ end: true });
  await source.open({ row: [0, 10], near: 9, streams: source.streams });
  const { row, time, streams } = asked.at(-1);
  assert.deepEqual([row, time, streams[0].begun, source.has(0, 10)], [[0, 10], 9, 7, true]);
  source.limits = [[10], [20]];
  assert.deepEqual([0, 5, 9, 10].map((at) => source.has(0, at)), [false, true, true, false]);
});

test("a list of logs that are gone is made anew", async () => {
  let first = true;
  const wanted = [];
  serve((where, body) => {
    if (!body) return { sites: [{ site: "s", streams: [{ log: first ? "old" : "new", sealed: true, committed: 1 }] }] };
    wanted.push(body.streams[0].log);
    if (!first) return { streams: body.streams, rows: [], before: [], after: [], ended: [], over: true };
    first = false;
    return { error: "there is no log", status: 404 };
  });
  const real = globalThis.fetch;
  globalThis.fetch = async (...asked) => {
    const answer = await real(...asked);
    return answer.ok ? answer : new Response(await answer.text(), { status: 404 });
  };
  await new Merged({ run: "r", order: "time" }).open({ end: true });
  assert.deepEqual(wanted, ["old", "new"]);
});

/** Two merged logs, whose lines of ten bytes alternate, with errors of log 0 and rows that continue a traceback. */
function alternate(errors, traces = []) {
  serve((where, body) => {
    if (!body) return { sites: [{ site: "s", streams: ["a", "b"].map((log) => ({ log, sealed: true, committed: LENGTH })) }] };
    const rows = Array.from({ length: LENGTH / 5 }, (_, n) => [n % 2, 10 * (n >> 1), 10 * (n >> 1) + 10, `line ${n}`, n % 2 ? 0 : errors.includes(10 * (n >> 1)) ? ERROR : traces.includes(10 * (n >> 1)) ? ERROR | TRACE : 0]);
    const left = rows.filter((row) => 2 * row[2] > (body.after?.[row[0]] ?? 0));
    const taken = body.level ? left.filter((row) => row[4]) : left.slice(0, body.rows);
    const first = left.findIndex((row) => row[4] === ERROR);
    const place = [0, 1].map((k) => Math.max(body.after?.[k] ?? 0, ...left.slice(0, first).filter((row) => row[0] === k).map((row) => 2 * row[2])));
    return { streams: body.streams, rows: taken, before: [0, 0], after: [2 * LENGTH, 2 * LENGTH], ended: [true, true], over: true, first: first < 0 ? null : place };
  });
}

for (const [name, errors, traces, from, on, wanted, place] of [
  ["the one at the place", [300], [], [0, 300], false, 300, [601, 601]],
  ["the next one", [300, 500], [], [0, 300], true, 500, [1000, 1000]],
  ["from another log's line", [300], [], [1, 100], true, 300, [600, 600]],
  ["not a traceback's own lines", [300, 500], [310, 320], [0, 300], true, 500, [1000, 1000]],
  ["none", [300], [], [0, 300], true, null],
])
  test(`the next error of merged logs: ${name}`, async () => {
    alternate(errors, traces);
    const source = new Merged({ run: "r", order: "time" });
    const lines = new Lines();
    const { rows } = await source.open({ start: true });
    lines.merged = true;
    lines.replace(rows);
    const found = await source.nextError(lines, rows.find((row) => row[0] === from[0] && row[1] === from[1]), on);
    assert.deepEqual(found && [found.row[1], found.place.after], wanted && [wanted, place]);
  });
