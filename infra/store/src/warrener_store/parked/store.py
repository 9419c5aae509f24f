"""Parked messages in both databases: each is kept with the reason until an operator republishes or drops it.
Suite: `tests/conformance/test_store_parked.py`."""

from collections.abc import Callable, Sequence
from typing import Any

from warrener_store.databases.session import Rows, SqlSession
from warrener_store.encoding import decode, encode, escape, unescape
from warrener_store.mapping import ColumnCodec, ColumnKind, RowMapper, encode_text
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
from warrener_store.statements import Parameters


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


def _unique(messages: Sequence[ParkedMessage]) -> list[ParkedMessage]:
    """The first message of each id."""
    return list({message.parked_id: message for message in reversed(messages)}.values())


class ParkedMessages(SqlSession):
    """Messages that consumers could not process."""

    async def park(self, messages: Sequence[ParkedMessage]) -> None:
        """Store these; of a message that is parked already only `times` grows."""
        rows = [PARKED.to_row(message, self.codec)[:-1] for message in _unique(messages)]
        await self._put_rows("park", rows)  # `times` is counted by the database

    async def parked(
        self, which: ParkedFilter = ALL_PARKED, limit: int = 50, after: ParkedAt | None = None
    ) -> list[ParkedMessage]:
        """These messages, from behind `after` on."""
        found = await self._page(_LIST, which, limit, after)
        return [PARKED.from_row(values, self.codec) for values in found]

    async def parked_summaries(
        self, which: ParkedFilter = ALL_PARKED, limit: int = 50, after: ParkedAt | None = None
    ) -> list[ParkedSummary]:
        """The same without their bodies, which may be large."""
        found = await self._page(_SUMMARIES, which, limit, after)
        return [PARKED_SUMMARIES.from_row(values, self.codec) for values in found]

    async def _page(self, select: str, which: ParkedFilter, limit: int, after: ParkedAt | None) -> Rows:
        parameters, way = Parameters(), "" if which.oldest_first else " DESC"
        where = _where(which, after, self.codec, parameters.bind)
        text = f"{select}{where} ORDER BY parked_at{way}, parked_id{way} LIMIT {int(limit)}"
        return await self._query_text(text, parameters.values)

    async def group_parked(self, which: ParkedFilter) -> list[ParkedGroup]:
        """The number of messages by queue and reason."""
        parameters = Parameters()
        where = _where(which, None, self.codec, parameters.bind)
        text = f"{_GROUP}{where} GROUP BY queue, reason ORDER BY queue, reason"
        moment = self.codec.decode_moment
        return [
            ParkedGroup(unescape(queue), unescape(reason), int(messages), moment(first), moment(last))
            for queue, reason, messages, first, last in await self._query_text(text, parameters.values)
        ]

    async def forget_parked(self, messages: Sequence[ParkedMessage]) -> None:
        """Delete these. A message that was parked once more since stays."""
        rows = [
            (escape(one.parked_id), one.times, self.codec.encode_moment(one.parked_at)) for one in messages
        ]
        await self._put_rows("forget_parked", rows)


def _where(
    which: ParkedFilter, after: ParkedAt | None, codec: ColumnCodec, bind: Callable[[Any], str]
) -> str:
    """The condition of a list, from behind `after` on."""
    conditions: list[str] = []
    if which.ids is None and which.reason != TRIED_ALONE:
        conditions.append(f"reason <> {bind(TRIED_ALONE)}")
    pairs = (
        ("reason =", encode_text(which.reason)),
        ("queue =", encode_text(which.queue)),
        ("parked_at >=", codec.encode_moment(which.since)),
        ("parked_at <", codec.encode_moment(which.before)),
    )
    conditions += [f"{compared} {bind(value)}" for compared, value in pairs if value is not None]
    for column, names in (("parked_id", which.ids), ("routing_key", which.routing_keys)):
        if names is not None:
            conditions.append(f"{column} IN ({', '.join(map(bind, map(escape, names))) or 'NULL'})")
    if after is not None:
        place = f"{bind(codec.encode_moment(after.parked_at))}, {bind(escape(after.parked_id))}"
        conditions.append(f"(parked_at, parked_id) {'>' if which.oldest_first else '<'} ({place})")
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""
