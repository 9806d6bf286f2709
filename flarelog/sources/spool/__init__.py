"""What ``flarelog run`` captured, from the side of the reader; ``record`` is what the writer, ``process``, shares."""
