"""Experiments: each states a claim with its source, measures it, and is judged by bars anybody can re-evaluate.

Run them with ``python -m experiments``; ``README.md`` beside this file says what comes out. An experiment is a file or
a folder here; it imports the harness and what is shared, and no other experiment.
"""
