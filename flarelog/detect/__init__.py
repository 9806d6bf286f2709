"""What went wrong, found in lines that are known already: lines in, findings out. Pure: no file, no socket, no clock.

A finding is evidence, never a verdict: it names a line, says what such a line means, and what to do. ``base`` has the
values, a table module each family of signatures, ``table`` all of them, ``tracebacks`` Python's, ``detector`` one
log, ``across`` all logs of a run, ``rules`` what people add.
"""
