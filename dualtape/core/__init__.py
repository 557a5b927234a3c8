"""The idea: rows and their edges, Tensors, the stack of recorders, the walk back and the way along. Knows no mode."""
