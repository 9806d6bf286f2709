"""The version of this package; the wire protocol has its own (``wire.codec.base.MAJOR``)."""

__version__ = "0.1.0"
