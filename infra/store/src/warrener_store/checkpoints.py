"""Checkpoints: the last state that a handler has saved of each job, for the next attempt."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRow:
    """What the attempt has saved. `number` counts on from attempt to attempt."""

    job_id: UUID
    attempt: int
    number: int
    state: Any
    saved_at: datetime


class JobCheckpoints(Protocol):
    """The newest checkpoint of each job, kept by the engine of the StateStore
    (`tests/conformance/test_store_checkpoints.py`)."""

    async def keep_checkpoints(self, checkpoints: Sequence[CheckpointRow]) -> None:
        """Keep these; one with a smaller number, or the same, does not replace what is there."""
        ...

    async def checkpoints_of(self, job_ids: Collection[UUID]) -> dict[UUID, CheckpointRow]:
        """The newest of each of these jobs that has one."""
        ...
