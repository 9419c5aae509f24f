"""Pages of dead letters: their causes, the jobs of one cause, and redrives with live progress."""

from collections.abc import Collection
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from warrener.render.dead_letters import next_action
from warrener.render.tones import Tone
from warrener.web.api.dead_letters import (
    NO_CAUSE,
    DeadLetterCause,
    is_over,
    list_causes,
    list_redrives,
    read_cause,
    read_redrive,
)
from warrener.web.charts.picture import Picture
from warrener.web.charts.segments import draw_segments
from warrener.web.charts.sparkline import draw_sparkline
from warrener.web.page import Page, PageNotFound, PageRequest, View
from warrener_store.dead_letters.rows import DeadLetterState, RedriveKind, RedriveRow, RedriveState

_LIVE_REFRESH = 1.0  # seconds
_REDRIVE_TONES = {
    RedriveState.CANARY: Tone.LIVE,
    RedriveState.ROLLING: Tone.LIVE,
    RedriveState.STOPPED: Tone.ERROR,
    RedriveState.DONE: Tone.GOOD,
}
_STATE_TONES = {
    DeadLetterState.OPEN: Tone.ERROR,
    DeadLetterState.CLAIMED: Tone.SOFT,
    DeadLetterState.REDRIVEN: Tone.LIVE,
    DeadLetterState.SUCCEEDED: Tone.GOOD,
    DeadLetterState.DIED_AGAIN: Tone.ERROR,
    DeadLetterState.DIED: Tone.ERROR,
    DeadLetterState.REOPENED: Tone.WARNING,
    DeadLetterState.REJECTED: Tone.WARNING,
    DeadLetterState.ALREADY_SUCCEEDED: Tone.GOOD,
    DeadLetterState.DROPPED: Tone.SOFT,
}
_PROGRESS_ORDER = (
    DeadLetterState.SUCCEEDED,
    DeadLetterState.ALREADY_SUCCEEDED,
    DeadLetterState.DROPPED,
    DeadLetterState.DIED_AGAIN,
    DeadLetterState.DIED,
    DeadLetterState.REJECTED,
    DeadLetterState.REOPENED,
    DeadLetterState.REDRIVEN,
    DeadLetterState.CLAIMED,
    DeadLetterState.OPEN,
)


def redrive_badge(redrive: RedriveRow) -> tuple[str, str]:
    """Word and tone of a redrive's state."""
    return redrive.state.value, _REDRIVE_TONES[redrive.state].value


def dead_letter_badge(state: DeadLetterState) -> tuple[str, str]:
    """Word and tone of a dead letter's state."""
    return state.value, _STATE_TONES[state].value


def cause_address(fingerprint: str) -> str:
    """The address of a cause's page."""
    return f"/dead-letters/{fingerprint or NO_CAUSE}"


def _dead_letter_topics(_: PageRequest) -> Collection[str]:
    return ("dead-letters",)


def draw_progress(redrive: RedriveRow) -> Picture:
    """Draw how far a redrive is."""
    segments = [
        (state.value.replace("_", " "), _STATE_TONES[state], redrive.counts.get(state.value, 0))
        for state in _PROGRESS_ORDER
    ]
    name = f"progress-{str(redrive.redrive_id)[-8:]}"
    return draw_segments(segments, title="Dead letters of this redrive by state", name=name)


_SHARED: dict[str, Any] = {
    "draw_progress": draw_progress,
    "redrive_badge": redrive_badge,
    "dead_letter_badge": dead_letter_badge,
    "cause_address": cause_address,
    "is_over": is_over,
}


# -- causes ------------------------------------------------------------------------------------------------


async def _causes_view(request: PageRequest) -> View:
    job_type = request.query.get("type", "").strip()
    causes = await list_causes(request.console, job_type)
    context = _SHARED | {
        "causes": [(cause, _sparkline(cause, index)) for index, cause in enumerate(causes)],
        "redrives": await list_redrives(request.console, 8),
        "job_type": job_type,
        "types": sorted({cause.job_type for cause in causes}),
        "total": sum(cause.dead_letters for cause in causes),
    }
    return View(template="pages/dead_letters.html", title="Dead letters", context=context)


def _sparkline(cause: DeadLetterCause, index: int) -> Picture | None:
    if not cause.deaths:
        return None
    title = f"Deaths of {cause.job_type} by this cause in the last week"
    return draw_sparkline(list(cause.deaths), title=title, name=f"deaths-{index}", tone=Tone.ERROR)


# -- one cause ---------------------------------------------------------------------------------------------


async def _cause_view(request: PageRequest) -> View:
    fingerprint, state = request.path["fingerprint"], request.query.get("state", "")
    document = await read_cause(
        request.console, fingerprint, state=state, before=request.query.get("before", "")
    )
    example = document.dead_letters[0] if document.dead_letters else None
    if document.cause is not None:
        named = [one for one in document.dead_letters if one.job_id == document.cause.example]
        example = named[0] if named else example
    rows = await request.console.store.jobs_by_id([example.job_id]) if example else {}
    job = rows.get(example.job_id) if example else None
    here = cause_address(document.fingerprint)
    active = [row for row in document.redrives if not is_over(row)]
    context = _SHARED | {
        "document": document,
        "cause": document.cause,
        "here": here,
        "sparkline": _sparkline(document.cause, 0) if document.cause else None,
        "example": example,
        "arguments": None if job is None else request.console.masker.value(job.arguments),
        "active": [(row, progress_of(row)) for row in active],
        "redrives": document.redrives,
        "state": state,
        "states": [one.value for one in DeadLetterState],
        "next_action": next_action,
        "next_url": f"{here}?{urlencode({'state': state, 'before': document.before})}"
        if document.before
        else None,
        "first_url": here if request.query.get("before") else None,
    }
    word = document.cause.error.type if document.cause and document.cause.error else document.fingerprint
    return View(
        template="pages/dead_letter_cause.html",
        title=f"Dead letters: {word}",
        context=context,
        refresh=_LIVE_REFRESH if active else None,
    )


# -- redrives ----------------------------------------------------------------------------------------------


def progress_of(redrive: RedriveRow) -> list[tuple[str, str, int, float]]:
    """State, tone, number and share of a redrive's dead letters; what is over comes first."""
    total = sum(redrive.counts.values())
    return [
        (state.value.replace("_", " "), _STATE_TONES[state].value, count, count / total)
        for state in _PROGRESS_ORDER
        if (count := redrive.counts.get(state.value, 0))
    ]


async def _redrives_view(request: PageRequest) -> View:
    rows = await list_redrives(request.console, 100)
    return View(
        template="pages/redrives.html",
        title="Redrives",
        context=_SHARED | {"redrives": rows},
        refresh=_LIVE_REFRESH if any(not is_over(row) for row in rows) else None,
    )


async def _redrive_view(request: PageRequest) -> View:
    text = request.path["redrive_id"]
    try:
        redrive_id = UUID(text)
    except ValueError:
        raise PageNotFound(
            f"expected the id of a redrive, got {text!r:.60}; look at the list of redrives"
        ) from None
    document = await read_redrive(request.console, redrive_id)
    redrive = document.redrive
    selection = redrive.request.get("selection", {})
    context = _SHARED | {
        "document": document,
        "redrive": redrive,
        "progress": progress_of(redrive),
        "selection": {name: value for name, value in selection.items() if value},
        "options": {
            name: value
            for name, value in redrive.request.items()
            if name not in {"selection", "by", "reason", "dry_run"} and value not in (None, {}, [], "", False)
        },
        "can_stop": redrive.state in {RedriveState.CANARY, RedriveState.ROLLING},
        "can_resume": redrive.state is RedriveState.STOPPED,
        "is_drop": redrive.kind is RedriveKind.DROP,
        "is_dry_run": redrive.kind is RedriveKind.DRY_RUN,
        "took": (redrive.finished_at or request.now) - redrive.started_at,
    }
    return View(
        template="pages/redrive.html",
        title=f"Redrive {text[-8:]} is {redrive.state.value}",
        context=context,
        refresh=None if is_over(redrive) else _LIVE_REFRESH,
    )


PAGES = (
    Page(
        name="dead-letters",
        path="/dead-letters",
        section="dead-letters",
        view=_causes_view,
        topics=_dead_letter_topics,
    ),
    Page(
        name="dead-letter-cause",
        path="/dead-letters/{fingerprint}",
        section="dead-letters",
        view=_cause_view,
        topics=_dead_letter_topics,
    ),
    Page(
        name="redrives",
        path="/redrives",
        section="dead-letters",
        view=_redrives_view,
        topics=_dead_letter_topics,
    ),
    Page(
        name="redrive",
        path="/redrives/{redrive_id}",
        section="dead-letters",
        view=_redrive_view,
        topics=_dead_letter_topics,
    ),
)
