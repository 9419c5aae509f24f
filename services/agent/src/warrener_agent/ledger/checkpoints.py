"""Checkpoints in the ledger: found by whoever is granted the job's next claim, whichever agent it is."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Protocol
from uuid import UUID


class SavedCheckpoint(NamedTuple):
    """What an attempt has saved of its state. `state_text` is JSON, written once; `number` counts on from
    attempt to attempt."""

    job_id: UUID
    attempt: int
    number: int
    state_text: str


class CheckpointStore(Protocol):
    """Kept by the engine of the ledger (`tests/conformance/test_ledger_checkpoints.py`). A granted claim
    brings along what was saved last, whichever attempt has saved it."""

    async def save_checkpoints(
        self, checkpoints: Sequence[SavedCheckpoint], *, agent_id: str, now: datetime
    ) -> set[UUID]:
        """Save states of claims that this agent holds, in place of earlier ones; return the jobs of which it
        was done. The others were fenced. One for each job."""
        ...


def parse_checkpoint(job_id: UUID, attempt: int, text: str) -> SavedCheckpoint:
    """A checkpoint as a claim is answered with it (number, blank, state), for the attempt that goes on."""
    number, _, state = text.partition(" ")
    return SavedCheckpoint(job_id, attempt, int(number), state)
