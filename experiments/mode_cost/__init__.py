"""The cost of a derivative as one end of the function grows: the two experiments, and their common picture."""
