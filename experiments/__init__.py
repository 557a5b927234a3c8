"""Experiments: each states a claim with its source, measures it, and is judged by bars anybody can re-evaluate.

Run them with ``python -m experiments``; ``README.md`` beside this file says what comes out.
"""

# The order is the order of `list` and of `run all`.
NAMES = (
    "trace_table",
    "many_to_one",
    "one_to_many",
    "crossover",
    "accuracy_vs_step",
    "helmholtz",
    "hvp",
    "nesting",
    "adbench",
)
