"""Parked messages: kept with the reason until somebody sends them in again or drops them."""

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from warrener_store.encoding import escape, unescape
from warrener_store.records.codec import (
    ColumnCodec,
    decode_document,
    decode_text,
    encode_document,
    encode_text,
)

_NO_HEADERS: Mapping[str, str] = MappingProxyType({})
PARKED_COLUMNS = (
    "parked_id",
    "queue",
    "reason",
    "detail",
    "content_type",
    "body",
    "parked_at",
    "exchange",
    "routing_key",
    "message_id",
    "type",
    "headers",
    "times",
)
TRIED_ALONE = "tried_alone"
"""The reason of rows that are no parked messages (`crashed_readers`). A filter finds them by id or by this
reason."""
_LIST = f"SELECT {', '.join(PARKED_COLUMNS)} FROM warrener_parked"  # noqa: S608 - our own names alone
_GROUP = "SELECT queue, reason, count(*), min(parked_at), max(parked_at) FROM warrener_parked"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedMessage:
    """A message that cannot be understood, as it came."""

    parked_id: str  # the same message parked twice is one row
    queue: str
    reason: str
    detail: str
    content_type: str | None
    body: bytes
    parked_at: datetime
    # How it came, where that is known.
    exchange: str | None = None
    routing_key: str | None = None
    message_id: str | None = None
    type: str | None = None
    headers: Mapping[str, str] = field(default_factory=lambda: _NO_HEADERS)
    times: int = 1  # how often it was parked


def parked_to_row(row: ParkedMessage, codec: ColumnCodec) -> tuple[Any, ...]:
    """The values of PARKED_COLUMNS, but for the last, which the database counts."""
    return (
        escape(row.parked_id),
        escape(row.queue),
        escape(row.reason),
        escape(row.detail),
        encode_text(row.content_type),
        row.body,
        codec.encode_moment(row.parked_at),
        encode_text(row.exchange),
        encode_text(row.routing_key),
        encode_text(row.message_id),
        encode_text(row.type),
        encode_document(dict(row.headers)) if row.headers else None,
    )


def parked_from_row(values: Sequence[Any], codec: ColumnCodec) -> ParkedMessage:
    """The row whose PARKED_COLUMNS have these values."""
    return ParkedMessage(
        parked_id=unescape(values[0]),
        queue=unescape(values[1]),
        reason=unescape(values[2]),
        detail=unescape(values[3]),
        content_type=decode_text(values[4]),
        body=values[5],
        parked_at=codec.decode_moment(values[6]),
        exchange=decode_text(values[7]),
        routing_key=decode_text(values[8]),
        message_id=decode_text(values[9]),
        type=decode_text(values[10]),
        headers=decode_document(values[11]) or {},
        times=values[12],
    )


class ParkedAt(NamedTuple):
    """The place of a message in the list, which goes from the oldest on."""

    parked_at: datetime
    parked_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedFilter:
    """Which parked messages; what is None does not matter."""

    reason: str | None = None
    queue: str | None = None
    since: datetime | None = None
    before: datetime | None = None
    ids: Collection[str] | None = None

    def has(self, message: ParkedMessage) -> bool:
        """True if the message is one of these."""
        return (
            (self.ids is not None or self.reason == TRIED_ALONE or message.reason != TRIED_ALONE)
            and self.reason in (None, message.reason)
            and self.queue in (None, message.queue)
            and (self.since is None or message.parked_at >= self.since)
            and (self.before is None or message.parked_at < self.before)
            and (self.ids is None or message.parked_id in self.ids)
        )


class ParkedGroup(NamedTuple):
    """How many messages of one queue are parked for one reason."""

    queue: str
    reason: str
    messages: int
    first: datetime
    last: datetime


class ParkedMessages(Protocol):
    """Kept by the engine of the StateStore (`tests/conformance/test_store_parked.py`)."""

    async def list_parked(
        self, which: ParkedFilter, limit: int, after: ParkedAt | None = None
    ) -> list[ParkedMessage]:
        """The oldest first, from behind `after` on."""
        ...

    async def group_parked(self, which: ParkedFilter) -> list[ParkedGroup]:
        """How many there are, by queue and reason."""
        ...

    async def forget_parked(self, messages: Sequence[ParkedMessage]) -> None:
        """Delete these. One that was parked once more since stays."""
        ...


class SqlParkedMessages(ParkedMessages):
    """In both databases, in the same words; a database adds how a question is asked and rows are put."""

    codec: ColumnCodec

    @abstractmethod
    async def _query_text(self, text: str, parameters: Sequence[Any]) -> Sequence[Sequence[Any]]:
        """Run this statement, which changes nothing; its parameters are `$1`, `$2` …"""

    @abstractmethod
    async def _put_rows(self, name: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Run the statement of this name for these rows, which are some."""

    async def list_parked(
        self, which: ParkedFilter, limit: int, after: ParkedAt | None = None
    ) -> list[ParkedMessage]:
        """The oldest first, from behind `after` on."""
        query = _ParkedQuery(self.codec)
        query.only(which)
        if after is not None:
            query.after_position(after)
        text = f"{_LIST}{query.where} ORDER BY parked_at, parked_id LIMIT {int(limit)}"
        return [
            parked_from_row(values, self.codec) for values in await self._query_text(text, query.parameters)
        ]

    async def group_parked(self, which: ParkedFilter) -> list[ParkedGroup]:
        """How many there are, by queue and reason."""
        query = _ParkedQuery(self.codec)
        query.only(which)
        text = f"{_GROUP}{query.where} GROUP BY queue, reason ORDER BY queue, reason"
        return [
            ParkedGroup(
                unescape(values[0]),
                unescape(values[1]),
                int(values[2]),
                self.codec.decode_moment(values[3]),
                self.codec.decode_moment(values[4]),
            )
            for values in await self._query_text(text, query.parameters)
        ]

    async def forget_parked(self, messages: Sequence[ParkedMessage]) -> None:
        """Delete these. One that was parked once more since stays."""
        rows = [
            (escape(one.parked_id), one.times, self.codec.encode_moment(one.parked_at)) for one in messages
        ]
        if rows:
            await self._put_rows("forget_parked", rows)


class _ParkedQuery:
    """The condition of a question, and its parameters."""

    def __init__(self, codec: ColumnCodec) -> None:
        self._codec = codec
        self._conditions: list[str] = []
        self.parameters: list[Any] = []

    @property
    def where(self) -> str:
        return f" WHERE {' AND '.join(self._conditions)}" if self._conditions else ""

    def only(self, which: ParkedFilter) -> None:
        """The messages of a filter."""
        if which.ids is None and which.reason != TRIED_ALONE:
            self._add("reason <> {}", TRIED_ALONE)
        if which.reason is not None:
            self._add("reason = {}", escape(which.reason))
        if which.queue is not None:
            self._add("queue = {}", escape(which.queue))
        if which.since is not None:
            self._add("parked_at >= {}", self._codec.encode_moment(which.since))
        if which.before is not None:
            self._add("parked_at < {}", self._codec.encode_moment(which.before))
        if which.ids is not None:
            marks = ", ".join(["{}"] * len(which.ids)) or "NULL"
            self._add(f"parked_id IN ({marks})", *map(escape, which.ids))

    def after_position(self, place: ParkedAt) -> None:
        """What comes after this place."""
        values = self._codec.encode_moment(place.parked_at), escape(place.parked_id)
        self._add("(parked_at, parked_id) > ({}, {})", *values)

    def _add(self, condition: str, *values: Any) -> None:
        first = len(self.parameters) + 1
        self.parameters += values
        self._conditions.append(condition.format(*(f"${first + place}" for place in range(len(values)))))
