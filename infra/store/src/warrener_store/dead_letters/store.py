"""Dead letters and redrives: in both databases, then what each does in its own way. Suite:
`tests/conformance/test_dead_letters.py`."""

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from warrener_contracts.state_machine import JobState
from warrener_store.batches import compact_columns
from warrener_store.databases.session import SqlSession
from warrener_store.databases.transaction import TransactionalSession
from warrener_store.dead_letters import queries
from warrener_store.dead_letters.columns import (
    DEAD_LETTERS,
    PROGRESS,
    TRANSITION_WIDTH,
    redrive_from_row,
    redrive_to_row,
    transitions_to_rows,
)
from warrener_store.dead_letters.rows import (
    DeadLetter,
    DeadLetterFilter,
    DeadLetterGroup,
    DeadLetterState,
    DeadLetterTransition,
    RedriveOutcome,
    RedriveRow,
    SuccessfulRequest,
    UnresolvedCause,
)
from warrener_store.encoding import unescape
from warrener_store.mapping import POSTGRES_CODEC, SQLITE_CODEC, RowMapper

SUCCESSFUL_REQUESTS = RowMapper(SuccessfulRequest)


class DeadLetterStore(SqlSession):
    """Dead letters and redrives. Errors are those of the state store."""

    @abstractmethod
    async def claim_redrives(self, now: datetime, until: datetime, limit: int) -> list[RedriveRow]:
        """Claim redrives with `wake_at <= now`, the longest due first, by moving it to `until`.

        No two callers get the same; the claim of a caller that dies ends at `until`. A claim increases the
        version.
        """

    async def list_dead_letters(self, which: DeadLetterFilter) -> list[DeadLetter]:
        """Dead letters, by default the last that died first."""
        found = await self._query_text(*queries.dead_letters_query(which, self.codec))
        return [DEAD_LETTERS.from_row(values, self.codec) for values in found]

    async def count_dead_letters(self, which: DeadLetterFilter) -> dict[DeadLetterState, int]:
        """The number of dead letters in each state; `limit` is ignored."""
        found = await self._query_text(*queries.counts_query(which, self.codec))
        return {DeadLetterState(state): dead_letters for state, dead_letters in found}

    async def group_dead_letters(self, which: DeadLetterFilter) -> list[DeadLetterGroup]:
        """Dead letters by cause and job type, the cause of the last death first."""
        codec = self.codec
        found = await self._query_text(*queries.groups_query(which, codec))
        ids = tuple(codec.decode_id(row[5]) for row in found)
        examples = await self._examples(ids)
        return [
            DeadLetterGroup(
                fingerprint=row[0],
                job_type=unescape(row[1]),
                dead_letters=row[2],
                first_died_at=codec.decode_moment(row[3]),
                last_died_at=codec.decode_moment(row[4]),
                example=examples[job_id],
            )
            for row, job_id in zip(found, ids, strict=True)
            if job_id in examples
        ]

    async def _examples(self, ids: tuple[UUID, ...]) -> dict[UUID, DeadLetter]:
        """The dead letters of these jobs; an example may have changed its state meanwhile."""
        which = DeadLetterFilter(states=(), job_ids=ids, limit=len(ids))
        return {one.job_id: one for one in (await self.list_dead_letters(which) if ids else ())}

    async def unresolved_causes(
        self, since: datetime, limit: int, *, fingerprint: str | None = None, job_type: str | None = None
    ) -> list[UnresolvedCause]:
        """The causes of unresolved dead letters, that of the last death first, with their deaths since then.

        Costs the same however many dead letters there are: every cause is found by an index, at most
        MAX_COMPARED_CAUSES are compared, and MAX_COUNTED_DEATHS of each are counted.
        """
        codec = self.codec
        found = await self._query_text(*queries.causes_query(limit, fingerprint, job_type))
        if not found:
            return []
        ids = tuple(codec.decode_id(row[2]) for row in found)
        examples = await self._examples(ids)
        deaths: dict[str, dict[datetime, int]] = defaultdict(dict)
        for name, hour, count in await self._query_text(
            *queries.deaths_query([row[0] for row in found], since, codec)
        ):
            deaths[name][codec.decode_moment(hour)] = count
        return [
            UnresolvedCause(
                fingerprint=row[0],
                dead_letters=row[3],
                first_died_at=codec.decode_moment(row[1]),
                example=examples[job_id],
                deaths=deaths[row[0]],
            )
            for row, job_id in zip(found, ids, strict=True)
            if job_id in examples
        ]

    async def redrive_outcomes(
        self, redrive_id: UUID, requested_before: datetime, limit: int
    ) -> list[RedriveOutcome]:
        """Outcomes of redriven dead letters: those whose new job is over, and those requested by then that no
        scheduler has accepted. The first that died first."""
        place = self.codec.encode_id(redrive_id), self.codec.encode_moment(requested_before)
        return [
            RedriveOutcome(
                dead_letter=DEAD_LETTERS.from_row(values, self.codec),
                state=None if values[-2] is None else JobState(values[-2]),
                fingerprint=values[-1],
            )
            for values in await self._query("redrive_outcomes", *place, limit)
        ]

    async def succeeded_since(
        self, requests: Collection[str], job_types: Collection[str], since: datetime
    ) -> list[SuccessfulRequest]:
        """Jobs of these types, accepted after `since`, that have succeeded with one of these requests."""
        if not requests or not job_types:
            return []
        named = self._names(requests), self._names(job_types), self.codec.encode_moment(since)
        return await self._rows(SUCCESSFUL_REQUESTS, "succeeded_since", *named)

    async def redrives(self, ids: Collection[UUID] = (), limit: int = 50) -> list[RedriveRow]:
        """Redrives, the last requested first; of these ids, if any are given."""
        found = await (
            self._query("redrives_by_id", limit, self._ids(ids)) if ids else self._query("redrives", limit)
        )
        return [redrive_from_row(values, self.codec) for values in found]

    async def save_redrive(self, row: RedriveRow, moves: Sequence[DeadLetterTransition] = ()) -> bool:
        """Write a redrive's progress and move its dead letters, together; True if the write applied.

        It applies if the store holds version `row.version - 1`; version 1 is inserted if there is no redrive
        by this id, and moves nothing. A dead letter moves only from `from_state`, and only if no other
        redrive has it; the others stay.
        """
        if row.version == 1:
            return bool(await self._change("put_redrive", *redrive_to_row(row, self.codec)))
        return await self._save_progress(row, moves)

    @abstractmethod
    async def _save_progress(self, row: RedriveRow, moves: Sequence[DeadLetterTransition]) -> bool: ...


class PostgresDeadLetters(DeadLetterStore):
    """In PostgreSQL each change is one statement."""

    async def claim_redrives(self, now: datetime, until: datetime, limit: int) -> list[RedriveRow]:
        found = await self._change("claim_redrives", now, until, limit)
        rows = sorted(found, key=lambda row: (row[-1], row[0]))  # UPDATE … RETURNING gives no order
        return [redrive_from_row(values, POSTGRES_CODEC) for values in rows]

    async def _save_progress(self, row: RedriveRow, moves: Sequence[DeadLetterTransition]) -> bool:
        progress = redrive_to_row(row, POSTGRES_CODEC, PROGRESS)
        columns = compact_columns(TRANSITION_WIDTH, transitions_to_rows(moves, POSTGRES_CODEC))
        return bool(await self._change("save_redrive", row.redrive_id, *progress, *columns))


class SqliteDeadLetters(DeadLetterStore, TransactionalSession):
    """In a SQLite file each change is one transaction."""

    async def claim_redrives(self, now: datetime, until: datetime, limit: int) -> list[RedriveRow]:
        moment = SQLITE_CODEC.encode_moment
        due = await self._claim(("due_redrives", moment(now), limit), "claim_redrives", moment(until))
        rows = (redrive_from_row(values, SQLITE_CODEC) for values in due)
        return [replace(row, version=row.version + 1, wake_at=until) for row in rows]

    async def _save_progress(self, row: RedriveRow, moves: Sequence[DeadLetterTransition]) -> bool:
        redrive_id = str(row.redrive_id)
        async with self._writing() as transaction:
            progress = redrive_to_row(row, SQLITE_CODEC, PROGRESS)
            counted = await transaction.query("save_redrive", *progress, redrive_id)
            if counted:
                rows = transitions_to_rows(moves, SQLITE_CODEC)
                await transaction.run("move_dead_letter", ((*values, redrive_id) for values in rows))
        return bool(counted)
