"""Turns and signals of workflows as frozen values. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from warrener_contracts.events import Answer, ErrorInfo, Journal, Suspension, Turn
from warrener_contracts.state_machine import JobState

MAX_SIGNALS = 1_000
"""Signals that the store keeps of one job, received ones too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRow:
    """One turn of a workflow: an attempt that began with new answers, or that ended with a suspension."""

    job_id: UUID
    attempt: int
    answers: tuple[Answer, ...] = ()  # with which it began
    began_at: datetime | None = None
    suspension: Suspension | None = None  # None: it waits, runs, or did not end so
    suspended_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalRow:
    """A signal that was sent to a workflow, which may not exist yet."""

    job_id: UUID
    signal_id: str
    name: str
    data: Any
    received_at: datetime


class ChildStatus(NamedTuple):
    """How far a job is, without what it holds."""

    job_id: UUID
    state: JobState
    attempt: int
    finished_at: datetime | None
    cancel_requested: bool


class ChildEnd(NamedTuple):
    """How a job has ended. `result_size`: bytes of JSON in the store; a result that is too large is None."""

    job_id: UUID
    state: JobState
    attempt: int
    finished_at: datetime
    error: ErrorInfo | None
    cancel_reason: str | None
    ending_reason: str | None
    result_size: int
    result: Any


def journal_of(turns: Sequence[TurnRow]) -> Journal:
    """The journal that a dispatch carries. `turns`: those of one job, by attempt."""
    return Journal(
        turns=tuple(
            Turn(attempt=one.attempt, answers=one.answers, suspension=one.suspension) for one in turns
        )
    )
