"""Checkpoints: what an attempt has saved of its state, for the attempt that goes on from there."""

from typing import Any, Final, Literal

from pydantic import Field

from warrener_contracts.events.envelope import Event, EventData
from warrener_contracts.events.fields import Timestamp
from warrener_contracts.events.status import AttemptData

MAX_CHECKPOINT: Final = 16 * 1024
"""Bytes of JSON that a checkpoint may have: it travels with every dispatch of a later attempt."""


class Checkpoint(EventData, frozen=True):
    """The state that a handler has saved. Of two of one job, the one with the greater number is newer."""

    number: int = Field(ge=1, le=2**31 - 1, description="Counts on from attempt to attempt.")
    state: Any = Field(default=None, description="Any JSON value; its handler alone knows what it means.")


class AttemptCheckpointedData(AttemptData, frozen=True):
    """It has saved its state; also a sign of life."""

    saved_at: Timestamp
    checkpoint: Checkpoint


class AttemptCheckpointed(Event[AttemptCheckpointedData], frozen=True):
    """`attempt.checkpointed.<job type>`; told once the checkpoint stands in the agent's ledger."""

    type: Literal["attempt.checkpointed.v1"] = "attempt.checkpointed.v1"
