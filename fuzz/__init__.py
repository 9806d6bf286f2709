"""Any bytes, for everything that parses or decides on what came from outside: see targets.py, and ``make fuzz``."""
