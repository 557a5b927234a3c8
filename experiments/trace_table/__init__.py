"""The traces of a small function, as a table and a graph: what only this experiment needs."""
