"""Tests that NVFlare's own interpreter runs, which can import its classes (see ``test_inside.py``)."""
