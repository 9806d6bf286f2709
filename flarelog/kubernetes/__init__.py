"""What the API of Kubernetes says about pods: a client for the few calls that are needed, and the facts in its answers.

Bytes of logs never wait for it: it only adds to what the names of files say.
"""
