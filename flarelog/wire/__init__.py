"""The gRPC protocol: encoding of the model, both ends of its calls, compression and batching."""
