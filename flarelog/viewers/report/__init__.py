"""A run's report: one file that stays, from a store or a receiver. ``gather`` reads; all other modules are pure."""
