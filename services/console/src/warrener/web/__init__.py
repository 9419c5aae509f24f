"""The console: pages and an HTTP API over the store and the broker."""
