import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "./page.mjs";

const { ranged, rangeOf, within } = await load("range.js");
const { clock, zone } = await load("words.js");
const { fragment } = await load("address.js");
const { adopt } = await load("settings.js");
const NOON = Date.UTC(2026, 10, 20, 12);
const MINUTE = 60_000;

function at(address) {
  const { pathname, search, hash } = new URL(address, "http://page");
  globalThis.location = { pathname, search, hash };
}

test("a range is read as it is written, by the clock of the lines", () => {
  assert.deepEqual(rangeOf("12:00 to 12:05", NOON), { from: NOON, to: NOON + 5 * MINUTE });
  assert.deepEqual(rangeOf("12:05 to 12:00", NOON, MINUTE), { from: NOON + 4 * MINUTE, to: NOON - MINUTE });
  assert.equal(rangeOf("12:05", NOON), null);
});

test("a range leaves the marked bytes, which may lie out of it, and keeps the search", () => {
  at("/run/r/s/log#bytes=5-9&find=x");
  assert.equal(within({ from: 1, to: 2 }), "/run/r/s/log?from=1&to=2#find=x");
  assert.equal(within(null, 7), "/run/r/s/log?time=7#bytes=5-9&find=x");
});

test("an address has only the settings that its page has", () => {
  adopt("#curve=loss&times=on&zone=local");
  const found = {};
  for (const address of ["/", "/run/r", "/run/r/s/log", "/run/r?merged=time"]) {
    at(address);
    found[address] = fragment(null, null, true);
  }
  assert.deepEqual(found, { "/": "#zone=local", "/run/r": "#zone=local&curve=loss", "/run/r/s/log": "#zone=local&times=on", "/run/r?merged=time": "#zone=local&times=on" });
  at("/run/r");
  assert.equal(fragment([5, 9], null), "#bytes=5-9&zone=local&times=on");
});

test("a range of any numbers has times that the page can show", () => {
  for (const [given, wanted] of [["from=1e99", true], ["from=1e99&to=x", true], ["from=8640000000000001&to=9e15", true], ["from=-1e99&to=5", true], ["from=Infinity", true], ["from=x&to=y", false]]) {
    const found = ranged(new URLSearchParams(given));
    assert.equal(found !== null, wanted, given);
    for (const time of [found?.from, found?.to]) if (time) assert.match(clock(time) + zone(time), /^\d\d:\d\d:\d\dUTC/, given);
  }
});
