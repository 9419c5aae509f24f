"""Old rows of all aggregates: found, and deleted in batches."""
