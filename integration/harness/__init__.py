"""The tools of the integration tests."""
