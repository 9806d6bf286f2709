"""The tests, and what they share.

What is compiled is kept, whatever the environment says: else each worker compiles all tests, and each command that a
test starts compiles flarelog, anew in each run.
"""

import os
import sys

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
