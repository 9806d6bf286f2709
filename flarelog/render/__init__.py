"""From the bytes of a log to what a person reads: pure, told its time, and a view that never changes what is stored.

``container`` takes off what a container runtime put around a log's bytes, ``screen`` makes lines of them as a terminal
would show them, ``times`` reads a line's own time stamp, ``merge`` puts the lines of several logs in order, ``choose``
picks and marks lines. ``flarelog view`` reads files into them; whoever follows a receiver feeds them its chunks, a
``Renderer`` a stream.
"""
