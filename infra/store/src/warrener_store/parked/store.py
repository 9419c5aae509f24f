"""The store of parked messages: its port, for both databases and in memory. A parked message is kept with the
reason until an operator republishes or drops it. Suite: `tests/conformance/test_store_parked.py`."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, Protocol

from warrener_store.databases.session import Rows, SqlSession
from warrener_store.encoding import decode, encode, escape, unescape
from warrener_store.mapping import ColumnCodec, ColumnKind, RowMapper
from warrener_store.parked.rows import (
    ALL_PARKED,
    BEGINNING,
    TRIED_ALONE,
    ParkedAt,
    ParkedFilter,
    ParkedGroup,
    ParkedMessage,
    ParkedSummary,
)


def _encode_headers(headers: Any) -> str | None:
    return encode(dict(headers)) if headers else None  # none is NULL


PARKED = RowMapper(ParkedMessage, kinds={"headers": ColumnKind(_encode_headers, decode)})

PARKED_SUMMARIES = RowMapper(ParkedSummary)
_SUMMARY_COLUMNS = ", ".join(
    {"beginning": f"coalesce(substr(body, 1, {BEGINNING}), body)", "size": "length(body)"}.get(name, name)
    for name in PARKED_SUMMARIES.columns
)
_SUMMARIES = f"SELECT {_SUMMARY_COLUMNS} FROM warrener_parked"  # noqa: S608 - our own names alone
_LIST = f"SELECT {', '.join(PARKED.columns)} FROM warrener_parked"  # noqa: S608 - our own names alone
_GROUP = "SELECT queue, reason, count(*), min(parked_at), max(parked_at) FROM warrener_parked"


class ParkedMessages(Protocol):
    """Messages that consumers could not process."""

    async def park(self, messages: Sequence[ParkedMessage]) -> None:
        """Store these; of a message that is parked already only `times` grows."""
        ...

    async def parked(
        self, which: ParkedFilter = ALL_PARKED, limit: int = 50, after: ParkedAt | None = None
    ) -> list[ParkedMessage]:
        """These messages, from behind `after` on."""
        ...

    async def parked_summaries(
        self, which: ParkedFilter = ALL_PARKED, limit: int = 50, after: ParkedAt | None = None
    ) -> list[ParkedSummary]:
        """The same without their bodies, which may be large."""
        ...

    async def group_parked(self, which: ParkedFilter) -> list[ParkedGroup]:
        """The number of messages by queue and reason."""
        ...

    async def forget_parked(self, messages: Sequence[ParkedMessage]) -> None:
        """Delete these. A message that was parked once more since stays."""
        ...


def _unique(messages: Sequence[ParkedMessage]) -> list[ParkedMessage]:
    """The first message of each id."""
    return list({message.parked_id: message for message in reversed(messages)}.values())


def _summary(message: ParkedMessage) -> ParkedSummary:
    return ParkedSummary(
        parked_id=message.parked_id,
        queue=message.queue,
        reason=message.reason,
        detail=message.detail,
        content_type=message.content_type,
        beginning=message.body[:BEGINNING],
        size=len(message.body),
        parked_at=message.parked_at,
        routing_key=message.routing_key,
        type=message.type,
        times=message.times,
    )


class SqlParkedMessages(SqlSession, ParkedMessages):
    """Parked messages in both databases."""

    async def park(self, messages: Sequence[ParkedMessage]) -> None:
        rows = [PARKED.to_row(message, self.codec)[:-1] for message in _unique(messages)]
        await self._put_rows("park", rows)  # `times` is counted by the database

    async def parked(
        self, which: ParkedFilter = ALL_PARKED, limit: int = 50, after: ParkedAt | None = None
    ) -> list[ParkedMessage]:
        found = await self._page(_LIST, which, limit, after)
        return [PARKED.from_row(values, self.codec) for values in found]

    async def parked_summaries(
        self, which: ParkedFilter = ALL_PARKED, limit: int = 50, after: ParkedAt | None = None
    ) -> list[ParkedSummary]:
        found = await self._page(_SUMMARIES, which, limit, after)
        return [PARKED_SUMMARIES.from_row(values, self.codec) for values in found]

    async def _page(self, select: str, which: ParkedFilter, limit: int, after: ParkedAt | None) -> Rows:
        query = _ParkedQuery(self.codec, which)
        if after is not None:
            query.continue_after(after)
        way = "" if which.oldest_first else " DESC"
        text = f"{select}{query.where} ORDER BY parked_at{way}, parked_id{way} LIMIT {int(limit)}"
        return await self._query_text(text, query.parameters)

    async def group_parked(self, which: ParkedFilter) -> list[ParkedGroup]:
        query = _ParkedQuery(self.codec, which)
        text = f"{_GROUP}{query.where} GROUP BY queue, reason ORDER BY queue, reason"
        moment = self.codec.decode_moment
        return [
            ParkedGroup(unescape(queue), unescape(reason), int(messages), moment(first), moment(last))
            for queue, reason, messages, first, last in await self._query_text(text, query.parameters)
        ]

    async def forget_parked(self, messages: Sequence[ParkedMessage]) -> None:
        rows = [
            (escape(one.parked_id), one.times, self.codec.encode_moment(one.parked_at)) for one in messages
        ]
        await self._put_rows("forget_parked", rows)


class _ParkedQuery:
    """The condition of a query, and its parameters."""

    def __init__(self, codec: ColumnCodec, which: ParkedFilter) -> None:
        self._codec = codec
        self._sign = ">" if which.oldest_first else "<"
        self._conditions: list[str] = []
        self.parameters: list[Any] = []
        self._select(which)

    @property
    def where(self) -> str:
        return f" WHERE {' AND '.join(self._conditions)}" if self._conditions else ""

    def continue_after(self, place: ParkedAt) -> None:
        """Select only messages behind this position."""
        values = self._codec.encode_moment(place.parked_at), escape(place.parked_id)
        self._add(f"(parked_at, parked_id) {self._sign} ({{}}, {{}})", *values)

    def _select(self, which: ParkedFilter) -> None:
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
        for column, names in (("parked_id", which.ids), ("routing_key", which.routing_keys)):
            if names is not None:
                marks = ", ".join(["{}"] * len(names)) or "NULL"
                self._add(f"{column} IN ({marks})", *map(escape, names))

    def _add(self, condition: str, *values: Any) -> None:
        first = len(self.parameters) + 1
        self.parameters += values
        self._conditions.append(condition.format(*(f"${first + place}" for place in range(len(values)))))


class MemoryParked(ParkedMessages):
    """Parked messages in a dictionary."""

    def __init__(self) -> None:
        self._parked: dict[str, ParkedMessage] = {}

    async def park(self, messages: Sequence[ParkedMessage]) -> None:
        for message in _unique(messages):
            held = self._parked.get(message.parked_id)
            self._parked[message.parked_id] = (
                replace(message, times=1) if held is None else replace(held, times=held.times + 1)
            )

    async def parked(
        self, which: ParkedFilter = ALL_PARKED, limit: int = 50, after: ParkedAt | None = None
    ) -> list[ParkedMessage]:
        places = sorted(
            (ParkedAt(one.parked_at, one.parked_id) for one in self._parked.values() if which.has(one)),
            reverse=not which.oldest_first,
        )
        if after is not None:
            places = [one for one in places if (one > after if which.oldest_first else one < after)]
        return [self._parked[one.parked_id] for one in places[:limit]]

    async def parked_summaries(
        self, which: ParkedFilter = ALL_PARKED, limit: int = 50, after: ParkedAt | None = None
    ) -> list[ParkedSummary]:
        return [_summary(message) for message in await self.parked(which, limit, after)]

    async def group_parked(self, which: ParkedFilter) -> list[ParkedGroup]:
        found = sorted(
            (one for one in self._parked.values() if which.has(one)), key=lambda one: (one.queue, one.reason)
        )
        groups = (
            (key, [one.parked_at for one in of_it])
            for key, of_it in groupby(found, lambda one: (one.queue, one.reason))
        )
        return [ParkedGroup(*key, len(times), min(times), max(times)) for key, times in groups]

    async def forget_parked(self, messages: Sequence[ParkedMessage]) -> None:
        for message in messages:
            held = self._parked.get(message.parked_id)
            if held is not None and (held.times, held.parked_at) == (message.times, message.parked_at):
                del self._parked[message.parked_id]
