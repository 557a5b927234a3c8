"""E14: how accurate the derivatives of linear algebra are, beside condition numbers and gaps."""
