"""Where committed bytes live."""
