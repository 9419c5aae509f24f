"""Circuit breakers: what fails too often is held back until a probe succeeds."""
