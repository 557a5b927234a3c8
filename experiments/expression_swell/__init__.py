"""E07: how symbolic derivatives swell, and the operations that automatic differentiation performs."""
