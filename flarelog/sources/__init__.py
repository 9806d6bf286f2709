"""The sources of a log's bytes, and the finders of logs."""
