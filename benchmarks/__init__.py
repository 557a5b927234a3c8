"""Timings of dualtape against plain NumPy, hand-written derivatives and other libraries, as ratios in one process."""
