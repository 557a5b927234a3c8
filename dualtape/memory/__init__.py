"""Memory used before, and large products in blocks: what knows arrays, and nothing else of dualtape."""
