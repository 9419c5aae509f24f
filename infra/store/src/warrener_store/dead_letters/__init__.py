"""Dead letters, and the redrives that redrive or drop them."""
