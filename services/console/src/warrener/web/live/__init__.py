"""Live pages: events of the broker become topics, and pages that depend on a topic are rendered again."""
