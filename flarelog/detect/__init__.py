"""Findings in lines that are already read: lines in, findings out. Pure: no file, no socket, no clock.

A finding is evidence, never a verdict: it names a line, the meaning of such a line, and an action. ``base`` has the
values, a table module each family of signatures, ``table`` all of them, ``tracebacks`` Python's, ``detector`` one log,
``across`` all logs of a run, ``rules`` users' own signatures.
"""
