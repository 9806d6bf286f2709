/**
 * Applies a pattern to texts: in the page itself, or as a Worker, which the page can terminate: some patterns never end by
 * themselves.
 */

/** The matches in *texts*: `[[name, [[begin, end], ...]], ...]`, without texts that do not match. */
export function matches({ source, flags }, texts) {
  const wanted = new RegExp(source, flags);
  const found = [];
  for (const [name, text] of texts) {
    const places = [];
    for (const match of text.matchAll(wanted)) {
      if (match[0].length) places.push([match.index, match.index + match[0].length]);
      if (places.length === 100) break;
    }
    if (places.length) found.push([name, places]);
  }
  return found;
}

if (!globalThis.document) {
  onmessage = ({ data: { id, wanted, texts } }) => postMessage({ id, found: matches(wanted, texts) });
  postMessage({ ready: true });
}
