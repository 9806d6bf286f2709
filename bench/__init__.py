"""The measurements behind docs/performance.md; ``python -m bench`` takes them all."""

import os

# Where gRPC is used in this process it would complain on stderr whenever another one is started.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
