"""What follows a trouble: retry, park, alert, digest, compensate, close, as ladders in a file declare it."""
