"""Parked messages as frozen values, and the filters of their lists. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import NamedTuple

TRIED_ALONE = "tried_alone"
"""The reason of rows that are no parked messages (`crashed_readers`). A filter finds them by id or by this
reason."""

_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedMessage:
    """A message that a consumer could not process, as it came."""

    parked_id: str  # the same message parked twice is one row
    queue: str
    reason: str
    detail: str
    content_type: str | None
    body: bytes
    parked_at: datetime
    # How it came, as far as that is known.
    exchange: str | None = None
    routing_key: str | None = None
    message_id: str | None = None
    type: str | None = None
    headers: Mapping[str, str] = field(default_factory=lambda: _NO_HEADERS)
    times: int = 1  # how often it was parked


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedSummary:
    """A parked message in a list: the beginning of its body, and the size of the whole."""

    parked_id: str
    queue: str
    reason: str
    detail: str
    content_type: str | None
    beginning: bytes
    size: int  # of the body, in bytes
    parked_at: datetime
    routing_key: str | None = None
    type: str | None = None
    times: int = 1


class ParkedAt(NamedTuple):
    """The position of a message in a list."""

    parked_at: datetime
    parked_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedFilter:
    """The parked messages to select; None selects any. The newest come first, if not said otherwise."""

    reason: str | None = None
    queue: str | None = None
    since: datetime | None = None
    before: datetime | None = None
    ids: Collection[str] | None = None
    routing_keys: Collection[str] | None = None
    oldest_first: bool = False


ALL_PARKED = ParkedFilter()
BEGINNING = 400
"""Bytes of a body that a list has."""


class ParkedGroup(NamedTuple):
    """The number of messages of one queue that are parked for one reason."""

    queue: str
    reason: str
    messages: int
    first: datetime
    last: datetime
