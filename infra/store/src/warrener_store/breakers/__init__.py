"""Circuit breakers."""
