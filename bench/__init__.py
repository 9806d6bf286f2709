"""The measurements of docs/performance.md; ``python -m bench`` runs them all."""

import os

# Otherwise gRPC logs a warning to stderr whenever this process starts another.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
