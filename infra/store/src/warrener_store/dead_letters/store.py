"""Dead letters and redrives: in both databases, then what each does in its own way. Suite:
`tests/conformance/test_dead_letters.py`."""

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

from warrener_contracts.state_machine import JobState
from warrener_store.batches import compact_columns
from warrener_store.databases.session import SqlSession
from warrener_store.databases.transaction import TransactionalSession
from warrener_store.dead_letters.columns import (
    DEAD_LETTERS,
    PROGRESS,
    REDRIVE_COLUMNS,
    TRANSITION_WIDTH,
    redrive_from_row,
    redrive_to_row,
    sort_by_job,
    transition_to_row,
)
from warrener_store.dead_letters.queries import (
    causes_query,
    counts_query,
    dead_letters_query,
    deaths_query,
    groups_query,
    redrive_outcomes_query,
    succeeded_query,
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
from warrener_store.mapping import POSTGRES_CODEC, SQLITE_CODEC

_REDRIVE = ", ".join(REDRIVE_COLUMNS)


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
        found = await self._query_text(*dead_letters_query(which, self.codec))
        return [DEAD_LETTERS.from_row(values, self.codec) for values in found]

    async def count_dead_letters(self, which: DeadLetterFilter) -> dict[DeadLetterState, int]:
        """The number of dead letters in each state; `limit` is ignored."""
        found = await self._query_text(*counts_query(which, self.codec))
        return {DeadLetterState(state): dead_letters for state, dead_letters in found}

    async def group_dead_letters(self, which: DeadLetterFilter) -> list[DeadLetterGroup]:
        """Dead letters by cause and job type, the cause of the last death first."""
        codec = self.codec
        found = await self._query_text(*groups_query(which, codec))
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
        found = await self._query_text(*causes_query(limit, fingerprint, job_type))
        if not found:
            return []
        ids = tuple(codec.decode_id(row[2]) for row in found)
        examples = await self._examples(ids)
        deaths: dict[str, dict[datetime, int]] = defaultdict(dict)
        for name, hour, count in await self._query_text(
            *deaths_query([row[0] for row in found], since, codec)
        ):
            deaths[name][_hour(hour)] = count
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
        width = len(DEAD_LETTERS.columns)
        query = redrive_outcomes_query(redrive_id, requested_before, limit, self.codec)
        return [
            RedriveOutcome(
                dead_letter=DEAD_LETTERS.from_row(values[:width], self.codec),
                state=None if values[width] is None else JobState(values[width]),
                fingerprint=values[width + 1],
            )
            for values in await self._query_text(*query)
        ]

    async def succeeded_since(
        self, requests: Collection[str], job_types: Collection[str], since: datetime
    ) -> list[SuccessfulRequest]:
        """Jobs of these types, accepted after `since`, that have succeeded with one of these requests."""
        if not requests or not job_types:
            return []
        codec = self.codec
        query = succeeded_query(list(requests), list(job_types), since, codec)
        return [
            SuccessfulRequest(
                codec.decode_id(job_id), unescape(job_type), request, codec.decode_moment(accepted_at)
            )
            for job_id, job_type, request, accepted_at in await self._query_text(*query)
        ]

    async def redrives(self, ids: Collection[UUID] = (), limit: int = 50) -> list[RedriveRow]:
        """Redrives, the last requested first; of these ids, if any are given."""
        parameters = (limit, *map(self.codec.encode_id, ids))
        named = ", ".join(f"${place}" for place in range(2, len(parameters) + 1))
        where = f"WHERE redrive_id IN ({named})" if named else ""
        text = (
            f"SELECT {_REDRIVE} FROM warrener_redrives {where} "  # noqa: S608 - made of constants alone
            "ORDER BY requested_at DESC, redrive_id DESC LIMIT $1"
        )
        return [redrive_from_row(values, self.codec) for values in await self._query_text(text, parameters)]

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


def _hour(value: datetime | str) -> datetime:
    """An hour as the database has it: a moment, or the beginning of its text."""
    if isinstance(value, str):
        return datetime.fromisoformat(value).replace(tzinfo=UTC)
    return value.astimezone(UTC)


class PostgresDeadLetters(DeadLetterStore):
    """In PostgreSQL each change is one statement."""

    async def claim_redrives(self, now: datetime, until: datetime, limit: int) -> list[RedriveRow]:
        found = await self._change("claim_redrives", now, until, limit)
        rows = sorted(found, key=lambda row: (row[-1], row[0]))  # UPDATE … RETURNING gives no order
        return [redrive_from_row(values, POSTGRES_CODEC) for values in rows]

    async def _save_progress(self, row: RedriveRow, moves: Sequence[DeadLetterTransition]) -> bool:
        progress = redrive_to_row(row, POSTGRES_CODEC, PROGRESS)
        columns = compact_columns(
            TRANSITION_WIDTH, (transition_to_row(move, POSTGRES_CODEC) for move in sort_by_job(moves))
        )
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
                rows = (transition_to_row(move, SQLITE_CODEC) for move in sort_by_job(moves))
                await transaction.run("move_dead_letter", ((*values, redrive_id) for values in rows))
        return bool(counted)
