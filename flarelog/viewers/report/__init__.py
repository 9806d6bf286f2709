"""A run's report: one file that stays, of what a store or a receiver knows. ``gather`` asks; all else is pure."""
