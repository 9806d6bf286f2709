"""The version of this package; the wire protocol has its own (``wire.MAJOR``)."""

__version__ = "0.1.0"
