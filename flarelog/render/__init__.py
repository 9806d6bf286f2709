"""Turn a log's bytes into lines for a person. Pure: callers pass the time, and no view changes the stored bytes.

``container`` strips the framing of a container runtime, ``screen`` makes lines as a terminal would show them, ``times``
parses a line's own time stamp, ``merge`` orders the lines of several logs, ``choose`` filters lines. ``flarelog view``
feeds them from files; a follower of a receiver feeds them the receiver's chunks, with one ``Renderer`` a stream.
"""
