"""Where alerts go: everything that Apprise speaks, a signed webhook, the log."""
