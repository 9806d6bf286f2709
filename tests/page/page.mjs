/** Loads the page's modules in Node, which takes a .js file without a package.json for CommonJS. */

import { register } from "node:module";

const SHAPES = "data:text/javascript,export const [SHAPES, KINDS, SIGNS, LEGEND] = [{}, {}, {}, []]"; // the page's server makes this module
const HOOK = `export const load = (url, context, next) => next(url, url.includes("/web/static/") ? { ...context, format: "module" } : context);
export const resolve = (name, context, next) => (name === "./shapes.js" ? { url: ${JSON.stringify(SHAPES)}, shortCircuit: true } : next(name, context));`;

register(`data:text/javascript,${encodeURIComponent(HOOK)}`);
Map.groupBy ??= (all, named) => all.reduce((found, one) => found.set(named(one), [...(found.get(named(one)) ?? []), one]), new Map()); // Node 20 has none
globalThis.document = {}; // matcher.js takes a place without one for its Worker
globalThis.matchMedia = () => ({ matches: false });
globalThis.requestAnimationFrame = setImmediate;

/** The module *name* of the page. */
export const load = (name) => import(`../../flarelog/viewers/web/static/${name}`);

/**
 * Answers the page's requests with *answer*, which gets the path and the body: an object is sent as JSON, an array as
 * lines of JSON, and an Error is a lost connection.
 */
export function serve(answer) {
  globalThis.fetch = async (where, { body, signal }) => {
    const given = await answer(where, body && JSON.parse(body));
    signal?.throwIfAborted();
    if (given instanceof Error) throw given;
    return new Response(Array.isArray(given) ? given.map((one) => `${JSON.stringify(one)}\n`).join("") : JSON.stringify(given), { status: given.error && !Array.isArray(given) ? 400 : 200 });
  };
}
