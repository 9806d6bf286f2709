// @ts-check
/** Room for a text in a lane. */

/**
 * Where a text of *width* hides none of *taken*, between *from* and *to*: it ends at *at* if it can, or else begins there, or as
 * near to the right of it as it can; null without room.
 * @param {number} width  @param {number[][]} taken  @param {number} from  @param {number} to  @param {number} at
 */
export function roomFor(width, taken, from, to, at) {
  const before = at - width;
  if (before >= from && taken.every(([low, high]) => high <= before || low >= at)) return before;
  let x = Math.max(from, at);
  for (const [low, high] of taken.toSorted((one, other) => one[0] - other[0])) {
    if (low >= x + width) break;
    x = Math.max(x, high);
  }
  return x + width <= to ? x : null;
}
