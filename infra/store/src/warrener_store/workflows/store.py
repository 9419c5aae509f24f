"""Turns and signals of workflows in both databases. Suite: `tests/conformance/test_store_workflows.py`."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any
from uuid import UUID

from warrener_contracts.events import Answer, Suspension
from warrener_contracts.journals import SentSignal
from warrener_store.databases.session import Rows, SqlSession
from warrener_store.encoding import decode, encode
from warrener_store.mapping import ColumnKind, RowMapper, qualify
from warrener_store.workflows.rows import MAX_SIGNALS, ChildEnd, ChildStatus, SignalRow, TurnRow


def _encode_answers(answers: tuple[Answer, ...]) -> str:
    return encode([answer.model_dump(mode="json") for answer in answers])


def _decode_answers(text: str) -> tuple[Answer, ...]:
    return tuple(Answer.model_validate(answer) for answer in decode(text))


def _encode_suspension(suspension: Suspension) -> str:
    return encode(suspension.model_dump(mode="json"))


def _decode_suspension(text: str) -> Suspension:
    return Suspension.model_validate(decode(text))


# By `encode`: results may hold any text, and pydantic's own JSON refuses lone surrogates.
_KINDS = {
    "answers": ColumnKind(_encode_answers, _decode_answers),
    "suspension": ColumnKind(_encode_suspension, _decode_suspension),
}
TURNS = RowMapper(TurnRow, kinds=_KINDS)
SIGNALS = RowMapper(SignalRow)
_CHILD_STATUS = RowMapper(ChildStatus)
_CHILD_ENDS = RowMapper(ChildEnd)
WORDS = {
    "turn": ", ".join(TURNS.columns),
    "signal": ", ".join(SIGNALS.columns),
    "held_signal": qualify("held", SIGNALS.columns),
}

_TURN = attrgetter("job_id", "attempt")


class WorkflowStore(SqlSession):
    """The journals of workflows. Turns are deleted with their job; what is stored of one never changes."""

    async def keep_answers(self, rows: Sequence[TurnRow]) -> None:
        """Store these turns as they begin; one that is stored stays as it is, so of two writers the first
        counts. A turn of a job that does not exist is left out, here and below."""
        await self._put(TURNS, "keep_answers", _first_of_each(rows))

    async def keep_suspensions(self, rows: Sequence[TurnRow]) -> None:
        """Store the suspensions of these turns; the first one of a turn counts."""
        await self._put(TURNS, "keep_suspensions", _first_of_each(rows))

    async def turns_of(self, job_ids: Collection[UUID]) -> dict[UUID, list[TurnRow]]:
        """The turns of those of these jobs that have some, by attempt."""
        found: dict[UUID, list[TurnRow]] = {}
        for row in await self._rows(TURNS, "turns_of", self._ids(job_ids)) if job_ids else ():
            found.setdefault(row.job_id, []).append(row)
        return found

    async def last_turns(self, job_ids: Collection[UUID]) -> dict[UUID, TurnRow]:
        """The last turn of those of these jobs that have some."""
        rows = await self._rows(TURNS, "last_turns", self._ids(job_ids)) if job_ids else ()
        return {row.job_id: row for row in rows}

    async def journal_sizes(self, job_ids: Collection[UUID]) -> dict[UUID, int]:
        """How many bytes the journals of those of these jobs have that have turns; without reading them."""
        rows = await self._query("journal_sizes", self._ids(job_ids)) if job_ids else ()
        return {self.codec.decode_id(job_id): int(size) for job_id, size in rows}

    async def keep_signals(self, rows: Sequence[SignalRow], *, limit: int = MAX_SIGNALS) -> list[SignalRow]:
        """Store these signals, whether or not their jobs exist; a repeat changes nothing. Returns those that
        were refused, because their jobs have `limit` signals already."""
        if not rows:
            return []
        values = [SIGNALS.to_row(row, self.codec) for row in rows]
        await self._put_rows("keep_signals", [(*row, limit) for row in values])
        keys = self._names([_key(row.job_id, row.signal_id) for row in rows])
        found = await self._query("signals_among", self._ids({row.job_id for row in rows}), keys)
        stored = {tuple(key) for key in found}
        return [row for row, (*key, _, _, _) in zip(rows, values, strict=True) if tuple(key) not in stored]

    async def signals_of(
        self,
        names: Mapping[UUID, Collection[str]],
        limit: int = MAX_SIGNALS,
        *,
        received: Collection[tuple[UUID, str]] = (),
    ) -> dict[UUID, list[SignalRow]]:
        """The signals of these names of each job, the first received first: at most `limit` of a name, and
        none of those that the job has `received` (job and signal_id)."""
        wanted = [_key(job_id, name) for job_id, some in names.items() for name in some]
        if not wanted:
            return {}
        parameters = self._ids(names), self._names(wanted), self._names([_key(*each) for each in received])
        found: dict[UUID, list[SignalRow]] = {}
        for row in await self._rows(SIGNALS, "signals_of", *parameters, limit):
            found.setdefault(row.job_id, []).append(row)
        return found

    async def sent_signals(self, job_id: UUID) -> list[SentSignal]:
        """All signals that were sent to a job, without their data, the first received first."""
        rows = await self._query("sent_signals", self.codec.encode_id(job_id))
        return [SentSignal(row[0], row[1], self.codec.decode_moment(row[2])) for row in rows]

    async def wake_suspended(self, job_ids: Collection[UUID], now: datetime) -> set[UUID]:
        """Make those of these jobs that are suspended due, and return their ids.

        The version of each grows, also of one that is due already: a turn that was decided before is not
        saved.
        """
        if not job_ids:
            return set()
        moment = self.codec.encode_moment(now)
        return self._found(await self._change("wake_suspended", self._ids(job_ids), moment))

    async def late_turns(self, job_ids: Collection[UUID]) -> set[UUID]:
        """Those of these jobs that ended without success, and of which suspensions were stored that came
        after the end: more than `suspensions`, which counts those before it."""
        return self._found(await self._query("late_turns", self._ids(job_ids))) if job_ids else set()

    async def child_status(self, job_ids: Collection[UUID]) -> dict[UUID, ChildStatus]:
        """How far those of these jobs are that exist. Costs little, whatever they hold."""
        rows = await self._rows(_CHILD_STATUS, "child_status", self._ids(job_ids)) if job_ids else ()
        return {row.job_id: row for row in rows}

    async def child_ends(
        self, job_ids: Collection[UUID], max_result: int, max_bytes: int
    ) -> dict[UUID, ChildEnd]:
        """How those of these jobs ended that are over. The result of more than `max_result` bytes is left
        out, and only its size is read. Of each parent only the jobs that ended first, up to `max_bytes` of
        errors and results, and one more."""
        parameters = self._ids(job_ids), max_result, max_bytes
        rows = await self._rows(_CHILD_ENDS, "child_ends", *parameters) if job_ids else ()
        return {row.job_id: row for row in rows}

    async def drop_signals(self, before: datetime, limit: int) -> int:
        """Delete signals received before a moment whose jobs do not exist, at most `limit`; how many."""
        return len(await self._change("drop_signals", self.codec.encode_moment(before), limit))

    def _found(self, rows: Rows) -> set[UUID]:
        return {self.codec.decode_id(row[0]) for row in rows}


def _key(job_id: UUID, text: str) -> str:
    """A name or a signal of one job, as statements compare it."""
    return f"{job_id}{text}"


def _first_of_each(rows: Sequence[Any]) -> Sequence[Any]:
    """The first row of each turn: PostgreSQL updates no row twice in one statement."""
    return list({_TURN(row): row for row in reversed(rows)}.values())
