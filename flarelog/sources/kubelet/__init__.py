"""The logs of a node's pods, read over HTTPS from its kubelet's file server, for agents without access to its files.

``mirror`` copies the files, with their names and renames, into a directory of its own; ``containers`` reads that.
"""
