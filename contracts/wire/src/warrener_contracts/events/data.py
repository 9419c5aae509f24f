"""The payload of an event: what its data derive from. Rows of stores have some of it without an event."""

from pydantic import BaseModel


class EventData(BaseModel, frozen=True):
    """The payload of an event. Frozen; unknown fields are ignored, so that newer senders may add some."""
