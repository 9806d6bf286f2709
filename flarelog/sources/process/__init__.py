"""A command's output, its signals and its end: ``flarelog run``.

The command writes into pipes of 1 MiB. A small process, the spooler, moves the pipes' bytes into files, the spool. An
ordinary sidecar sends those files, and copiers write them on to flarelog's own stdout and stderr. The process that the
user started, the guard, starts and restarts the others, and passes signals and the exit status on.

**Nothing slows, blocks or fails the command.** Guard and spooler both hold a pipe's read end: a killed spooler costs no
byte, and the guard starts another. Copiers and sidecar read files: a blocked terminal or an absent receiver delays
nothing but the copy. Bytes that cannot be spooled are skipped and counted, and become a gap.
"""
