"""A function traced once and run as a program of NumPy calls: a stand-in, a graph, its source."""
