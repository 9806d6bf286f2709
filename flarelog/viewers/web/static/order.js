// @ts-check
/** The order of the sites on the page of a run: rows stay where they are while somebody reads them. */

/** @typedef {Map<string, {place: number, at: number}>} Order by site: how bad it was when it got its row, and the row */

/**
 * The order of *sites*, each with its place, the worst first, after the order *before*. Where *moves*, a site that is new, or
 * whose own place has changed, goes there, before the first one that is less bad; all others keep their order. Otherwise new
 * ones come last. *sorted*: whether no site waits for its place.
 * @param {Order|null} before  @param {[string, number][]} sites  @param {boolean} moves
 */
export function reordered(before, sites, moves) {
  const at = (/** @type {string} */ site) => before?.get(site)?.at ?? Infinity;
  const own = (/** @type {[string, number]} */ one) => before?.get(one[0])?.place === one[1];
  const [rows, changed] = [sites.filter(own), sites.filter((one) => !own(one))];
  const free = moves || !before;
  rows.push(...(free ? [] : changed.filter(([site]) => before.has(site))));
  rows.sort((one, other) => at(one[0]) - at(other[0]));
  for (const one of changed.toSorted((one, other) => one[1] - other[1])) {
    const next = rows.findIndex(([, place]) => place > one[1]);
    if (free) rows.splice(next < 0 ? rows.length : next, 0, one);
    else if (!before.has(one[0])) rows.push(one);
  }
  /** @type {Order} */
  const order = new Map(rows.map(([site, place], row) => [site, { place: free ? place : (before.get(site)?.place ?? NaN), at: row }]));
  return { order, sorted: free || !changed.length };
}
