"""What to send and what an answer means, without a socket, a file, a clock or a thread."""
