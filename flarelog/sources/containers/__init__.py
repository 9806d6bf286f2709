"""The logs of containers on a node, as the kubelet or Docker keeps them: a source of its own, next to ``files``.

The names in these directories tell everything that ``files`` has to infer: the container, the attempt, and the order
of rotated files. ``layouts`` reads the names, ``place`` decides which files are begun and in which order, and
``finder`` does it.
"""
