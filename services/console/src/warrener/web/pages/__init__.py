"""The pages. Each module has `PAGES`, a tuple of `Page`, or `ACTIONS`, a tuple of `Action`, or both."""
