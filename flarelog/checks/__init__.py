"""What must be right on a machine, and on the way to a receiver; each trouble with its cure."""
