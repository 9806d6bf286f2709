"""A command's output, its signals and its end: ``flarelog run``.

The command writes into pipes of 1 MiB. A small process, the spooler, moves what is in them into files, the spool; an
ordinary sidecar sends those, and copiers write them on to flarelog's own stdout and stderr. The process that was
started, the guard, looks after all of them and passes signals and the exit status on.

**Nothing slows, blocks or fails the command.** A pipe's read end is held by guard and spooler: a spooler that is killed
costs no byte, and the guard starts another. Copiers and sidecar read files: a blocked terminal and an absent receiver
hold up nothing but the copy. What cannot be spooled is passed over and counted, and becomes a gap.
"""
