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
from warrener_store.jobs.views import FIRST_ID, MAX_CHILDREN
from warrener_store.mapping import ColumnKind, RowMapper, encode_text, qualify
from warrener_store.workflows.rows import (
    MAX_SIGNALS,
    ChildEnd,
    ChildStatus,
    SignalRow,
    StoredTurn,
    TurnRow,
    WaitCount,
    WaitKind,
    WaitRow,
)


def _encode_answers(answers: tuple[Answer, ...]) -> str:
    return encode([answer.model_dump(mode="json", exclude_none=True) for answer in answers])


def _decode_answers(text: str) -> tuple[Answer, ...]:
    return tuple(Answer.model_validate(answer) for answer in decode(text))


def _encode_suspension(suspension: Suspension) -> str:
    return encode(suspension.model_dump(mode="json", exclude_none=True))


def _decode_suspension(text: str) -> Suspension:
    return Suspension.model_validate(decode(text))


# Without what is unset, as in messages, which take them as they are (`journal_json`). By `encode`: results
# may hold any text, and pydantic's own JSON refuses lone surrogates.
_KINDS = {
    "answers": ColumnKind(_encode_answers, _decode_answers),
    "suspension": ColumnKind(_encode_suspension, _decode_suspension),
}
TURNS = RowMapper(TurnRow, kinds=_KINDS)
SIGNALS = RowMapper(SignalRow)
_WAITS = RowMapper(WaitRow)
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
        """The turns of those of these jobs that have some, by attempt: those of their last generations, after
        the turn which began that."""
        found: dict[UUID, list[TurnRow]] = {}
        for row in await self._rows(TURNS, "turns_of", self._ids(job_ids)) if job_ids else ():
            found.setdefault(row.job_id, []).append(row)
        return found

    async def end_generation(self, job_id: UUID, generation: int, before: datetime) -> None:
        """Delete the turns before the one that ended a workflow's generation, and mark the signals that it
        has received, but those whose calls that turn has closed: they wait on. Of those of earlier
        generations the ones that came before a moment are deleted. After a crash in between the next call
        goes on."""
        key, moment = self.codec.encode_id(job_id), self.codec.encode_moment(before)
        turns = await self._rows(TURNS, "ended_turns", key, generation)
        if not turns or (end := turns[-1].suspension) is None:
            return
        answers = [answer for turn in turns for answer in turn.answers if answer.call_id not in end.closed]
        names = self._names([one.signal_id for one in answers if one.signal_id is not None])
        await self._change("keep_receipts", key, generation, names)
        await self._change("drop_received_signals", key, generation, moment, MAX_SIGNALS)
        await self._change("drop_ended_turns", key, generation)
        rest = _encode_suspension(Suspension(continued=end.continued))
        await self._change("clear_ended_turn", key, generation, rest)

    async def stored_turns(self, job_ids: Collection[UUID]) -> dict[UUID, list[StoredTurn]]:
        """The same, unread: most of them only travel on (`open_turns`)."""
        return self._unread(await self._query("turns_of", self._ids(job_ids))) if job_ids else {}

    async def last_turns(self, job_ids: Collection[UUID]) -> dict[UUID, StoredTurn]:
        """The last turn of those of these jobs that have some."""
        found = self._unread(await self._query("last_turns", self._ids(job_ids))) if job_ids else {}
        return {job_id: turns[-1] for job_id, turns in found.items()}

    def _unread(self, rows: Rows) -> dict[UUID, list[StoredTurn]]:
        found: dict[Any, list[StoredTurn]] = {}
        for job_id, attempt, answers, _, suspension, at in rows:
            moment = None if at is None else self.codec.decode_moment(at)
            found.setdefault(job_id, []).append(StoredTurn(attempt, answers, suspension, moment))
        return {self.codec.decode_id(job_id): turns for job_id, turns in found.items()}

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
        """The signals that were sent to a job, without their data, the first received first; not those that
        an earlier generation has received."""
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

    async def keep_waits(self, rows: Sequence[WaitRow]) -> None:
        """Store what these jobs wait for, if they are suspended."""
        await self._put(_WAITS, "keep_waits", rows)

    async def drop_waits(self, job_ids: Collection[UUID]) -> None:
        """Forget what these jobs have waited for."""
        if job_ids:
            await self._change("drop_waits", self._ids(job_ids))

    async def count_waits(self, limit: int) -> dict[WaitKind, WaitCount]:
        """Count the workflows that wait, at most `limit` of each kind."""
        found: dict[WaitKind, WaitCount] = {}
        for kind in WaitKind:
            ((jobs, since),) = await self._query("count_waits", kind.value, limit)
            found[kind] = WaitCount(int(jobs), None if since is None else self.codec.decode_moment(since))
        return found

    async def open_children(
        self, parent: UUID, after: UUID = FIRST_ID, limit: int = MAX_CHILDREN
    ) -> list[ChildStatus]:
        """The first child jobs of a job behind `after` that are not over, by id; without those that undo
        calls, and detached ones."""
        encode_id = self.codec.encode_id
        return await self._rows(_CHILD_STATUS, "open_children", encode_id(parent), encode_id(after), limit)

    async def count_failed(self, parent: UUID, map_id: str, limit: int) -> int:
        """Count the jobs of a map with `stop_after` that did not succeed, up to `limit`."""
        text = encode_text(f"!/{map_id}/")
        return len(await self._query("failed_members", self.codec.encode_id(parent), text, limit))

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
