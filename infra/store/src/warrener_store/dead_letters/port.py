"""The port of dead letters and redrives. Suite: `tests/conformance/test_dead_letters.py`."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

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


class DeadLetterStore(Protocol):
    """Dead letters and redrives. Errors are those of the state store."""

    async def list_dead_letters(self, which: DeadLetterFilter) -> list[DeadLetter]:
        """Dead letters, by default the last that died first."""
        ...

    async def count_dead_letters(self, which: DeadLetterFilter) -> dict[DeadLetterState, int]:
        """The number of dead letters in each state; `limit` is ignored."""
        ...

    async def group_dead_letters(self, which: DeadLetterFilter) -> list[DeadLetterGroup]:
        """Dead letters by cause and job type, the cause of the last death first."""
        ...

    async def unresolved_causes(
        self, since: datetime, limit: int, *, fingerprint: str | None = None, job_type: str | None = None
    ) -> list[UnresolvedCause]:
        """The causes of unresolved dead letters, that of the last death first, with their deaths since then.

        Costs the same however many dead letters there are: every cause is found by an index, at most
        MAX_COMPARED_CAUSES are compared, and MAX_COUNTED_DEATHS of each are counted.
        """
        ...

    async def redrive_outcomes(
        self, redrive_id: UUID, requested_before: datetime, limit: int
    ) -> list[RedriveOutcome]:
        """Outcomes of redriven dead letters: those whose new job is over, and those requested by then that no
        scheduler has accepted. The first that died first."""
        ...

    async def succeeded_since(
        self, requests: Collection[str], job_types: Collection[str], since: datetime
    ) -> list[SuccessfulRequest]:
        """Jobs of these types, accepted after `since`, that have succeeded with one of these requests."""
        ...

    async def redrives(self, ids: Collection[UUID] = (), limit: int = 50) -> list[RedriveRow]:
        """Redrives, the last requested first; of these ids, if any are given."""
        ...

    async def claim_redrives(self, now: datetime, until: datetime, limit: int) -> list[RedriveRow]:
        """Claim redrives with `wake_at <= now`, the longest due first, by moving it to `until`.

        No two callers get the same; the claim of a caller that dies ends at `until`. A claim increases the
        version.
        """
        ...

    async def save_redrive(self, row: RedriveRow, moves: Sequence[DeadLetterTransition] = ()) -> bool:
        """Write a redrive's progress and move its dead letters, together; True if the write applied.

        It applies if the store holds version `row.version - 1`; version 1 is inserted if there is no redrive
        by this id, and moves nothing. A dead letter moves only from `from_state`, and only if no other
        redrive has it; the others stay.
        """
        ...
