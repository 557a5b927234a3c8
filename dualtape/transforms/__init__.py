"""Functions of functions, built from the table and its two readers."""
