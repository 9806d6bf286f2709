"""Between the model and the wire: the messages of protobuf, a module each call; the one room that knows ``v1``.

What comes is never believed: what cannot be is Malformed, what makes no sense but is a hint for people is none.
"""
