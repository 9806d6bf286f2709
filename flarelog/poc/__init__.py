"""The proof of concept: sites, a receiver and faults on one machine, with real processes and real files."""
