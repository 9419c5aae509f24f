"""The wire of Warrener: what services and users say to each other, and nothing else.

Events are CloudEvents 1.0 (`warrener_contracts.events`), read and written by `warrener_contracts.codec`;
the exchanges and queues they travel through stand in `warrener_contracts.topology`; what an event does to a
job stands in `warrener_contracts.state_machine`. Needs pydantic alone and imports none of the other packages.
"""
