"""The store on NATS JetStream: any receiver may write any stream, and any server may die.

Laws:

- The last message of a stream's subject is the stream: one header has its whole state (``head``). A message is
  published after the one before it and no other (compare-and-set), one at a time for each stream.
- A committed offset is told only after a claim or a commit was acknowledged: the read of a leader that is cut from its
  peers may be 9 s old.
- What a timeout or a refusal means is read from the last message, by the rules of ``outcome``. No time window decides.
- Never max_age: a subject that expired would have forgotten its committed offset.
"""
