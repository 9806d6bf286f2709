"""Tests that NVFlare's own interpreter runs: its classes are imported there (see ``test_inside.py``)."""
