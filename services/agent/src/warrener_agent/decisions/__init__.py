"""The agent's decisions: pure functions and values, without event loop, bus, ledger or clock."""
