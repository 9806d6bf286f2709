"""The decisions of both ends: what to send next, and what a reply means. No socket, file, clock or thread."""
