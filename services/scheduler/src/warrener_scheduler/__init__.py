"""The scheduler: accepts requests, removes duplicates, and dispatches jobs when they are due."""
