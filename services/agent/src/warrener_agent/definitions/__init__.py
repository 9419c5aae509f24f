"""Job types as a handler's author declares them."""
