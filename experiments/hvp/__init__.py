"""Hessian-vector products by all orders of the modes: what only this experiment needs."""
