import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "./page.mjs";

const { fragment, parsed } = await load("address.js");
const FIND = { text: "a&b#c \u00fc", regex: false, exact: false, scope: "log", only: false };
const NOTHING = { bytes: null, find: null, strange: false };

for (const find of [null, FIND, { ...FIND, regex: true, exact: true, only: true, scope: "time" }, { ...FIND, scope: "run" }, { ...FIND, exact: true, field: true }])
  for (const bytes of [null, [0, 1], [100, 2 ** 52]])
    test(`what is put into an address is read from it: ${fragment(bytes, find)}`, () => assert.deepEqual(parsed(fragment(bytes, find)), { ...NOTHING, bytes, find }));

for (const hash of ["", "#", "#main"]) test(`an address without a place: ${hash}`, () => assert.deepEqual(parsed(hash), NOTHING));

for (const hash of ["#bytes=5-5", "#bytes=0-0", "#bytes=abc", "#bytes=100", "#bytes=73-90&x=1", `#bytes=${"9".repeat(30)}-${"9".repeat(31)}`, "#bytes=9-1", "#bytes=a-b", "#bytes=-1-5", "#bytes=1-99999999999999999999", "#bytes=", "#byte=1-2", "#line-7"])
  test(`an address that names no bytes: ${hash}`, () => assert.deepEqual(parsed(hash), { ...NOTHING, strange: true }));
