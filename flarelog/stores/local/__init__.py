"""A store that is a directory: a log's bytes are a file, and a journal beside it says what is durable."""
