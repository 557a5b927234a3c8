"""Nested derivatives, and duals that confuse them: what only this experiment needs."""
