"""The log lines of attempts in both databases. Suite: `tests/conformance/test_store_logs.py`."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING
from uuid import UUID

from pydantic import TypeAdapter

from warrener_store.databases.session import SqlSession
from warrener_store.logs.rows import MAX_LOGGED_ATTEMPTS, LogChunk, LogLimit, LogPosition
from warrener_store.mapping import ColumnKind, RowMapper

if TYPE_CHECKING:
    from warrener_contracts.events import LogEntry

_BEGIN = LogPosition(0, datetime(1970, 1, 1, tzinfo=UTC), 0)
"""Before every chunk."""


@cache
def _lines() -> "TypeAdapter[tuple[LogEntry, ...]]":
    from warrener_contracts.events import LogEntry  # noqa: PLC0415 - large, and most commands read no lines

    return TypeAdapter(tuple[LogEntry, ...])


def _encode_lines(lines: "tuple[LogEntry, ...]") -> str:
    return _lines().dump_json(lines, exclude_none=True).decode()


def _decode_lines(text: str) -> "tuple[LogEntry, ...]":
    return _lines().validate_json(text)


LOG_CHUNKS = RowMapper(LogChunk, kinds={"lines": ColumnKind(_encode_lines, _decode_lines)})
"""All columns; the lines are one JSON text."""
WORDS = {"log_chunk": ", ".join(LOG_CHUNKS.columns)}
"""The meanings of words in braces of statements."""


def _unique_chunks(chunks: Sequence[LogChunk]) -> list[LogChunk]:
    """One chunk for each position, by job and position: writers lock rows in the same order."""
    by_key: dict[tuple[UUID, LogPosition], LogChunk] = {}
    for chunk in chunks:
        key = chunk.job_id, chunk.position
        by_key[key] = _repeated(by_key.get(key, chunk), chunk)
    return [chunk for _, chunk in sorted(by_key.items(), key=lambda item: item[0])]


def _repeated(stored: LogChunk, repeat: LogChunk) -> LogChunk:
    """The stored chunk after a repeat of it."""
    return replace(stored, final=True) if repeat.final else stored


class AttemptLogs(SqlSession):
    """Log lines of attempts, in chunks. They are deleted with their job."""

    async def append_logs(self, chunks: Sequence[LogChunk], limit: LogLimit) -> None:
        """Store these, then delete old chunks of the same jobs: those beyond `limit`, and those of attempts
        before the last MAX_LOGGED_ATTEMPTS.

        A chunk that is stored already stays as it is, but becomes final if the repeat is: an agent repeats a
        line to say that none follows. A chunk of a job that does not exist is left out.
        """
        if not chunks:
            return
        await self._put(LOG_CHUNKS, "append_log", _unique_chunks(chunks))
        jobs = self._ids({chunk.job_id for chunk in chunks})
        await self._change("trim_logs", jobs, limit.lines, limit.size, MAX_LOGGED_ATTEMPTS)

    async def logs_of(
        self, job_id: UUID, *, attempt: int | None = None, after: LogPosition | None = None
    ) -> list[LogChunk]:
        """The chunks of a job, or of one attempt (None: of all), in order, those behind `after`."""
        number, started_at, first_line = after or _BEGIN
        place = number, self.codec.encode_moment(started_at), first_line
        return await self._rows(LOG_CHUNKS, "logs_of", self.codec.encode_id(job_id), attempt, *place)
