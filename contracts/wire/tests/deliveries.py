"""Messages as a consumer gets them, without a broker."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

NO_HEADERS: Mapping[str, object] = MappingProxyType({})


class DeliveredMessage(NamedTuple):
    """A message as a queue delivers it; one that came by no exchange has no key of ours."""

    body: bytes
    content_type: str | None
    exchange: str = ""
    routing_key: str = "warrener.requests"
    headers: Mapping[str, object] = NO_HEADERS
    readable: bool = True
    message_id: str | None = None
    type: str | None = None
    user_id: str | None = None
