"""The log lines of attempts."""
