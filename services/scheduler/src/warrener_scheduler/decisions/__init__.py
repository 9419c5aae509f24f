"""Decisions of the scheduler: pure functions, without asyncio, bus, store, clock or randomness."""
