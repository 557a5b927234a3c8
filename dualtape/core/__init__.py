"""The machinery: rows, Tensors, the stack of recorders, and the two readers of the table."""
