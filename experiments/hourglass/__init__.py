"""E17: Jacobians that neither mode accumulates best."""
