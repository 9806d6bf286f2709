import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { load } from "./page.mjs";

const { Endless, Matcher, pattern } = await load("matching.js");
const TEXTS = [[7, "loss 1"], [8, "gain 1"]];

mock.timers.enable({ apis: ["setTimeout"] });

/** The page's Worker: it says that it is ready, and answers, only when the test tells it. */
class FakeWorker {
  static all = [];
  asked = [];

  constructor() {
    FakeWorker.all.push(this);
  }

  postMessage(data) {
    this.asked.push(data);
  }

  terminate() {
    this.ended = true;
  }

  ready() {
    this.onmessage({ data: { ready: true } });
  }

  answer(found) {
    this.onmessage({ data: { id: this.asked.at(-1).id, found } });
  }
}
globalThis.Worker = FakeWorker;

function begun(text) {
  const matcher = new Matcher(pattern(text, { regex: true, ignore: true }));
  const found = matcher.find(TEXTS);
  return { matcher, found, worker: FakeWorker.all.at(-1) };
}

test("a text is looked for without a Worker", async () => {
  const before = FakeWorker.all.length;
  const found = await new Matcher(pattern("LOSS", { regex: false, ignore: true })).find(TEXTS);
  assert.deepEqual([found, FakeWorker.all.length], [[[7, [[0, 4]]]], before]);
});

test("signs of a text have no meaning in a pattern", async () => {
  const text = String.raw`a.b*c[d]{e}(f)|g^h$i?j+k/l\m`;
  assert.equal((await new Matcher(pattern(text, { regex: false, ignore: false })).find([[0, text]])).length, 1);
  assert.equal((await new Matcher(pattern("a.c", { regex: false, ignore: false })).find([[0, "abc"]])).length, 0);
});

test("a Worker that starts late is waited for, and the pattern's time begins then", async () => {
  const { found, worker } = begun("loss");
  mock.timers.tick(60_000);
  assert.deepEqual([worker.asked, worker.ended], [[], undefined]);
  worker.ready();
  mock.timers.tick(1999);
  worker.answer([[7, [[0, 4]]]]);
  assert.deepEqual(await found, [[7, [[0, 4]]]]);
});

test("a pattern that takes more than two seconds is ended", async () => {
  const { found, worker, matcher } = begun("(a+)+$");
  worker.ready();
  mock.timers.tick(2000);
  await assert.rejects(found, Endless);
  assert.ok(worker.ended);
  await assert.rejects(matcher.find(TEXTS), Endless);
});

test("a Worker that did not load is started again", async () => {
  const { found, worker } = begun("loss");
  worker.onerror();
  mock.timers.tick(1000);
  const again = FakeWorker.all.at(-1);
  assert.notEqual(again, worker);
  again.ready();
  again.answer([]);
  assert.deepEqual(await found, []);
});

test("what is no pattern is the browser's sentence, without flags that nobody typed", () => {
  assert.throws(() => pattern("(", { regex: true, ignore: true }), { name: "SyntaxError", message: "Invalid regular expression: Unterminated group" });
});
