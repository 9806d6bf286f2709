"""Streams in an object store, for months and years. ``layout`` has the keys, ``manifest`` what an object says."""
