"""Redaction: secrets are found in the bytes, and masked."""
