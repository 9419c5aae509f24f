"""Decide what an event means for a job: pure functions, held against the state machine of the contracts.

`judge` is the entrance: it finds the event's signal and fence (`signals`), looks up the effect that the state
machine allows, and lets one of `starts`, `retries`, `timeouts` and `outcomes` choose among its states.
`context` has what the judge gets and what it returns. Beside it stand the decisions of the other verbs:
`heartbeat_diff`, `missing_dispatches`, `schedule_health`.

An import contract in `pyproject.toml` keeps asyncio, the bus, the store's port, clocks and randomness out.
"""
