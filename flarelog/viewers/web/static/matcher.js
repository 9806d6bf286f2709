/** A Worker that applies a pattern to texts. The page can terminate it: some patterns never end by themselves. */

onmessage = ({ data: { id, pattern, flags, texts } }) => {
  const wanted = new RegExp(pattern, flags);
  const found = [];
  for (const [name, text] of texts) {
    const places = [];
    for (const match of text.matchAll(wanted)) {
      if (match[0].length) places.push([match.index, match.index + match[0].length]);
      if (places.length === 100) break;
    }
    if (places.length) found.push([name, places]);
  }
  postMessage({ id, found });
};
