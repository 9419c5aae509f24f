"""Tones and signs of states and outcomes: one meaning has one colour, on a terminal as on a page. Pure."""

from enum import StrEnum

from warrener_contracts.state_machine import JobState
from warrener_store.jobs.rows import AttemptOutcome


class Tone(StrEnum):
    """The meaning of a colour. The value is its style on a terminal, and ends the name of its CSS class."""

    GOOD = "good"
    ERROR = "error"
    WARNING = "warning"
    LIVE = "live"
    SOFT = "soft"


STATE_SIGNS: dict[JobState, tuple[str, Tone]] = {
    JobState.WAITING: ("◌", Tone.SOFT),
    JobState.QUEUED: ("○", Tone.LIVE),
    JobState.RUNNING: ("◐", Tone.LIVE),
    JobState.RETRYING: ("↻", Tone.WARNING),
    JobState.SUCCEEDED: ("●", Tone.GOOD),
    JobState.DEAD: ("✗", Tone.ERROR),
    JobState.CANCELLED: ("⊘", Tone.SOFT),
    JobState.EXPIRED: ("⊗", Tone.WARNING),
}
"""The sign and the tone of each state: the sign distinguishes states of one tone."""

OUTCOME_TONES: dict[AttemptOutcome, Tone] = {
    AttemptOutcome.SUCCEEDED: Tone.GOOD,
    AttemptOutcome.FAILED: Tone.ERROR,
    AttemptOutcome.TIMED_OUT: Tone.ERROR,
    AttemptOutcome.LOST: Tone.WARNING,
    AttemptOutcome.NOT_STARTED: Tone.WARNING,
    AttemptOutcome.RELEASED: Tone.SOFT,
    AttemptOutcome.SNOOZED: Tone.SOFT,
    AttemptOutcome.CANCELLED: Tone.SOFT,
}
