"""Ends of attempts in words and tones. Pure."""

from rich.text import Text

from warrener.render.tones import Tone
from warrener_store.jobs.rows import AttemptOutcome

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


def outcome_text(end: AttemptOutcome) -> Text:
    """The end of an attempt in its colour."""
    return Text(end.value.replace("_", " "), style=OUTCOME_TONES[end])
