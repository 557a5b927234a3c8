"""E18: a linearised program and its transpose."""
