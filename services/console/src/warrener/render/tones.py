"""Tones and signs of states: one meaning has one colour, on a terminal as on a page. Pure."""

from enum import StrEnum

from warrener_contracts.state_machine import JobState


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
    JobState.SUSPENDED: ("‖", Tone.SOFT),
    JobState.SUCCEEDED: ("●", Tone.GOOD),
    JobState.DEAD: ("✗", Tone.ERROR),
    JobState.CANCELLED: ("⊘", Tone.SOFT),
    JobState.EXPIRED: ("⊗", Tone.WARNING),
}
"""The sign and the tone of each state: the sign distinguishes states of one tone."""

TONE_SIGNS: dict[Tone, str] = {
    Tone.GOOD: "●",
    Tone.ERROR: "✗",
    Tone.WARNING: "▲",
    Tone.LIVE: "◐",
    Tone.SOFT: "○",
}
"""The sign of anything else that has a tone."""
