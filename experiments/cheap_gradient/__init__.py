"""E04: what operations and programs cost with their derivatives, declared and performed."""
