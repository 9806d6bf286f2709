"""The tests, and what they share.

The bytecode cache is on whatever the environment says: otherwise each worker and each flarelog command that a test
starts would compile its modules again in each run.
"""

import os
import sys

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
