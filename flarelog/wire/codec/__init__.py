"""Encode and decode the model as protobuf messages, a module for each call; the only importer of ``v1``.

Messages from a peer are never trusted: an impossible value raises Malformed, and an invalid hint is dropped.
"""
