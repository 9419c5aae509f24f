"""The turns of workflows, and the signals that they receive."""
