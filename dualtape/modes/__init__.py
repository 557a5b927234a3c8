"""What users record with: tapes, accumulators, Variables, and what these take and return. Readers of the table."""
