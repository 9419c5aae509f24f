"""Statistics of jobs that are over, rolled up as they end; and the versions of the code that ran them."""
