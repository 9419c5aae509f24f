"""Dead letters, and the campaigns that redrive or drop them."""
