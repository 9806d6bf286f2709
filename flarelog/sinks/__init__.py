"""Readers of the store that bring its bytes elsewhere: one destination a file."""
