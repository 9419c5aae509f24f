"""Circuit breakers hold back jobs that fail too often, until a probe succeeds."""
