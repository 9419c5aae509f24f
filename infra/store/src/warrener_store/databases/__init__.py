"""The two databases: addresses, connections, errors, and how statements are run."""
