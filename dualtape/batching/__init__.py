"""Many examples in the place of one: the stand-in for them, NumPy's functions on it, sweeps with a batch of seeds."""
