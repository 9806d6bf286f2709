"""What may not leave a site: found in its bytes, and masked."""
