"""Dense Jacobians, by forward or reverse mode: what only this experiment needs."""
