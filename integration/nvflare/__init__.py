"""flarelog inside NVFlare's own processes."""
