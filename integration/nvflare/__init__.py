"""flarelog in NVFlare's own processes."""
