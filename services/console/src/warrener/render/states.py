"""A sign and a colour for every state. Pure."""

from rich.text import Text

from warrener_contracts.states import JobState
from warrener_store.jobs.rows import AttemptEnd

_STATES: dict[JobState, tuple[str, str]] = {
    JobState.WAITING: ("◌", "soft"),
    JobState.QUEUED: ("○", "live"),
    JobState.RUNNING: ("◐", "live"),
    JobState.RETRYING: ("↻", "odd"),
    JobState.SUCCEEDED: ("●", "good"),
    JobState.DEAD: ("✗", "bad"),
    JobState.CANCELLED: ("⊘", "soft"),
    JobState.EXPIRED: ("⊗", "odd"),
}

_ENDS: dict[AttemptEnd, str] = {
    AttemptEnd.SUCCEEDED: "good",
    AttemptEnd.FAILED: "bad",
    AttemptEnd.TIMED_OUT: "bad",
    AttemptEnd.LOST: "odd",
    AttemptEnd.NOT_STARTED: "odd",
    AttemptEnd.RELEASED: "soft",
    AttemptEnd.SNOOZED: "soft",
    AttemptEnd.CANCELLED: "soft",
}


def state_text(state: JobState) -> Text:
    """`● succeeded` in green."""
    sign, style = _STATES[state]
    return Text(f"{sign} {state.value}", style=style)


def end_text(end: AttemptEnd) -> Text:
    """How an attempt ended."""
    return Text(end.value.replace("_", " "), style=_ENDS[end])


def id_text(job_id: object, *, wide: bool = True) -> Text:
    """An id, of which the last eight characters are enough to ask again; these alone where it is narrow."""
    whole = str(job_id)
    return Text.assemble((whole[:-8] if wide else "", "soft"), (whole[-8:], "key"))
