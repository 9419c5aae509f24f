"""Jobs, their attempts, and the rows that some have beside their own."""
