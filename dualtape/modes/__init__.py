"""What users record with: tapes, accumulators, Variables, and what they take and return. Readers of the core's table."""
