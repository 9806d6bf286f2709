"""One annotated line: its offset, text, time, level and part of a traceback, for everybody who shows, chooses, merges
or searches lines. Pure, as ``render`` is, which draws them.
"""
