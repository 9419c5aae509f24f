"""Pages of dead letters: their causes, the jobs of one cause, and redrives with live progress."""

from dataclasses import replace
from urllib.parse import urlencode

from warrener.operations import dead_letters
from warrener.operations.redrives import Redrive, RedrivesQuery, list_redrives, read_redrive
from warrener.options import report_invalid_fields
from warrener.render.tones import Tone
from warrener.web.charts.picture import Picture
from warrener.web.charts.small import Segment, draw_segments, draw_sparkline
from warrener.web.page import PageRequest, View, page
from warrener_store.dead_letters.rows import DeadLetterState, RedriveKind, RedriveState

_LIVE_REFRESH = 1.0  # seconds
_TOPICS = ("dead-letters",)


def progress_of(redrive: Redrive) -> tuple[list[Segment], Picture]:
    """Count a redrive's dead letters by state, those that are over first, and draw the counts."""
    tones = dead_letters.DEAD_LETTERS.tones
    parts = [
        (state.replace("_", " "), tone, count)
        for state, tone in tones.items()
        if (count := redrive.counts.get(state, 0))
    ]
    name = f"progress-{str(redrive.redrive_id)[-8:]}"
    return parts, draw_segments(parts, title="Dead letters of this redrive by state", name=name)


@page("/dead-letters", topics=_TOPICS)
async def show_dead_letters(request: PageRequest) -> View:
    """Show the causes of open dead letters."""
    job_type = request.query.get("type", "").strip()
    with report_invalid_fields():
        query = dead_letters.CausesQuery(job_type=job_type)
    causes = (await dead_letters.list_causes(request.console, query)).causes
    context = {
        "causes": [(cause, _sparkline(cause, index)) for index, cause in enumerate(causes)],
        "redrives": (await list_redrives(request.console, RedrivesQuery(limit=8))).redrives,
        "job_type": job_type,
    }
    return View("Dead letters", context)


def _sparkline(cause: dead_letters.DeathCause, index: int) -> Picture:
    title = f"Deaths of {cause.job_type} by this cause in the last week"
    return draw_sparkline(list(cause.deaths), title=title, name=f"deaths-{index}", tone=Tone.ERROR)


@page("/dead-letters/{fingerprint}", topics=_TOPICS)
async def show_dead_letter_cause(request: PageRequest) -> View:
    """Show one cause with its dead letters and redrives."""
    console, state = request.console, request.query.get("state", "")
    cause = await dead_letters.read_cause(console, request.path["fingerprint"])
    fingerprint, after = cause.fingerprint or dead_letters.NO_CAUSE, request.query.get("after", "")
    here, given = f"/dead-letters/{fingerprint}", {"fingerprint": fingerprint, "after": after}
    chosen = {"everything": "true"} if state == "all" else {"state": state}
    found = await dead_letters.list_dead_letters(
        console, replace(request, query=given | chosen).read(dead_letters.DeadLettersQuery)
    )
    redrives = []
    if cause.fingerprint:
        redrives = (await list_redrives(console, RedrivesQuery(fingerprint=cause.fingerprint))).redrives
    active = [redrive for redrive in redrives if not redrive.is_over]
    example, arguments = await dead_letters.read_example(console, cause.example)
    context = {
        "cause": cause,
        "here": here,
        "sparkline": _sparkline(cause, 0),
        "example": example,
        "arguments": arguments,
        "active": [(redrive, *progress_of(redrive)) for redrive in active],
        "redrives": redrives,
        "dead_letters": found.dead_letters,
        "state": state,
        "states": [one.value for one in DeadLetterState],
        "next_url": f"{here}?{urlencode({'state': state, 'after': found.next})}" if found.next else None,
        "first_url": here if after else None,
    }
    title = f"Dead letters: {cause.error.type if cause.error else cause.fingerprint}"
    return View(title, context, refresh=_LIVE_REFRESH if active else None)


@page("/redrives", section="dead-letters", topics=_TOPICS)
async def show_redrives(request: PageRequest) -> View:
    """Show the newest redrives."""
    redrives = (await list_redrives(request.console, RedrivesQuery(limit=100))).redrives
    is_live = any(not redrive.is_over for redrive in redrives)
    return View("Redrives", {"redrives": redrives}, refresh=_LIVE_REFRESH if is_live else None)


@page("/redrives/{redrive_id}", section="dead-letters", topics=_TOPICS)
async def show_redrive(request: PageRequest) -> View:
    """Show how far a redrive is."""
    redrive = await read_redrive(request.console, request.path["redrive_id"])
    newest = dead_letters.DeadLettersQuery(redrive_id=redrive.redrive_id, everything=True)
    selection = redrive.request.get("selection", {})
    parts, bar = progress_of(redrive)
    context = {
        "redrive": redrive,
        "dead_letters": (await dead_letters.list_dead_letters(request.console, newest)).dead_letters,
        "progress": parts,
        "bar": bar,
        "selection": {name: value for name, value in selection.items() if value},
        "options": {
            name: value
            for name, value in redrive.request.items()
            if name not in {"selection", "by", "reason", "dry_run"} and value not in (None, {}, [], "", False)
        },
        "can_stop": redrive.state in {RedriveState.CANARY, RedriveState.ROLLING},
        "can_resume": redrive.state is RedriveState.STOPPED,
        "is_dry_run": redrive.kind is RedriveKind.DRY_RUN,
        "took": (redrive.finished_at or request.now) - redrive.started_at,
    }
    title = f"Redrive {str(redrive.redrive_id)[-8:]} is {redrive.state.value}"
    return View(title, context, refresh=None if redrive.is_over else _LIVE_REFRESH)
