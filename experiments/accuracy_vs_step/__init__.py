"""Accuracy against the step of differences: what only this experiment needs."""
