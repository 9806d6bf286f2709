"""The logs of pods, read from the Kubernetes API alone, for those who can read neither a node's files nor its kubelet.

The API leaves out lines without a sign: it follows a file by its name, and drops what it has not read when the kubelet
rotates that file. So this source promises less than the others. Each line that the API delivers is stored once; each
loss that can be known is a gap; and an attempt of a container that cannot be proved to be complete is *unverified*.

``mirror`` writes what comes into files, named as on a node, in a directory that ``containers`` reads. ``reader`` is the
loop of one container, ``kept`` its files, ``join`` finds in an answer where the stored bytes end.
"""
