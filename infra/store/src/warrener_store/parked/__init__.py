"""Messages that consumers could not process."""
