"""The wire of Warrener: the messages between its services and its users.

Events are CloudEvents 1.0 (`warrener_contracts.events`), decoded by `warrener_contracts.codec` and published
as `warrener_contracts.messages`. Exchanges and queues are in `warrener_contracts.topology`, the effects of
events on a job in `warrener_contracts.state_machine`. Needs pydantic alone and imports none of the others.
"""
