"""Programs of other languages that request jobs, and the handlers that serve them."""
