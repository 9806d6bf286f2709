"""A command's output, its signals and its end: ``flarelog run``.

**Nothing slows, blocks or fails the command.** Guard and spooler both hold a pipe's read end: a killed spooler costs no
byte, and the guard starts another. Copiers and sidecar read files: a blocked terminal or an absent receiver delays
nothing but the copy. Bytes that cannot be spooled are skipped and counted, and become a gap.
"""
