"""The waterfall of any job: nothing unexplained, nothing outside of its place."""

from dataclasses import replace
from datetime import datetime
from io import StringIO
from typing import Any
from xml.etree.ElementTree import fromstring

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from tests.store_rows import after, attempt_of, queued_job, running_job

from warrener.render.screen import THEME
from warrener.render.trace import trace_page
from warrener.render.waterfall import Waterfall, WaterfallFacts, lay_out
from warrener.render.waterfall_bars import BarLook, RowKind
from warrener.web.charts.waterfall import WaterfallLinks, draw_waterfall
from warrener_contracts.events import ErrorInfo, ErrorKind
from warrener_contracts.state_machine import JobState
from warrener_store.jobs.rows import AttemptOutcome, AttemptRow
from warrener_store.jobs.views import CheckpointRow

from .test_drawings import HOSTILE

lengths = st.one_of(st.just(0.0), st.floats(0, 0.01), st.floats(0, 20), st.floats(0, 1e6))
words = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=60))
outcomes = st.sampled_from([each for each in AttemptOutcome if each is not AttemptOutcome.SUCCEEDED])


@st.composite
def attempts_of_a_job(draw: st.DrawFn) -> tuple[list[AttemptRow], float]:
    """Attempts one after another, and the second in which the last one ended."""
    at, made = 0.0, list[AttemptRow]()
    for number in range(1, draw(st.integers(0, 20)) + 1):
        outcome, text = draw(outcomes), draw(words)
        dispatched = at + draw(lengths)
        started = dispatched + draw(lengths)
        at = started + draw(lengths)
        message = text
        if outcome is AttemptOutcome.LOST:
            message = f"agent {text} has not sent a heartbeat since {after(at - draw(lengths)).isoformat()}"
        kind = ErrorKind.LOST if outcome is AttemptOutcome.LOST else ErrorKind.ERROR
        error = ErrorInfo(kind=kind, type=text[:100] or "E", message=message[:500])
        verdict = draw(
            st.sampled_from(
                [
                    f"retry at {after(at + 5).isoformat()}",
                    f"snoozed until {after(at + 9).isoformat()}: {text}",
                    f"not charged, held back: {text} is open",
                    f"dead: {text}",
                ]
            )
        )
        is_started = outcome is not AttemptOutcome.NOT_STARTED
        times = {"dispatched_at": after(dispatched), "started_at": after(started) if is_started else None}
        row = running_job(attempt=number, agent_id=text[:60], **times)
        end = attempt_of(row, outcome, error=error)
        made.append(replace(end, finished_at=after(at), verdict=verdict))
    return made, at


@st.composite
def jobs(draw: st.DrawFn) -> WaterfallFacts:
    """A job of any history in any state, with child jobs, a checkpoint and other moments."""
    attempts, at = draw(attempts_of_a_job())
    state = draw(st.sampled_from(JobState))
    text, next_number = draw(words), len(attempts) + 1
    requested_at = after(draw(st.floats(-100, 100)))
    common: dict[str, Any] = {"source": text, "job_type": "flights.load", "requested_at": requested_at}
    later = after(at + draw(lengths))
    times: dict[JobState, dict[str, Any]] = {
        JobState.WAITING: {"due_at": after(draw(lengths)), "attempt": 0, "dispatched_at": None},
        JobState.QUEUED: {"dispatched_at": draw(st.sampled_from([None, after(0)]))},
        JobState.RUNNING: {"attempt": next_number, "dispatched_at": after(at), "started_at": later}
        | {"agent_id": text[:60], "progress": 0.4, "progress_note": text}
        | {"cancel_reason": draw(st.sampled_from([None, text]))},
        JobState.RETRYING: {"attempt": next_number, "dispatched_at": draw(st.sampled_from([None, after(at)]))}
        | {"due_at": later, "updated_at": after(at)},
    }
    over: dict[str, Any] = {"attempt": max(len(attempts), draw(st.integers(0, 1))), "wake_at": None}
    over["finished_at"] = later
    over |= {"cancel_reason": text, "deadline_at": draw(st.sampled_from([None, later]))}
    make = running_job if state is JobState.RUNNING else queued_job
    row = make(**common, **{"state": state, **times.get(state, over)})
    if state in (JobState.WAITING, JobState.QUEUED):
        attempts = []
    child_jobs = [
        running_job(
            job_type="mail.send",
            state=draw(st.sampled_from(JobState)),
            requested_at=after(at),
            started_at=draw(st.sampled_from([None, later])),
            finished_at=draw(st.sampled_from([None, later])),
        )
        for _ in range(draw(st.integers(0, 4)))
    ]
    saved_at, heartbeat = after(draw(lengths)), after(at + draw(lengths))
    return WaterfallFacts(
        row=row,
        attempts=attempts,
        now=after(at + draw(lengths)),
        child_jobs=child_jobs,
        checkpoint=CheckpointRow(job_id=row.job_id, attempt=1, number=1, state=1, saved_at=saved_at),
        last_heartbeat=heartbeat,
    )


LINKS = WaterfallLinks(toggle_child_jobs="?children=0")


def unexplained(waterfall: Waterfall, until: datetime) -> list[tuple[datetime, datetime]]:
    """The times of the job itself that no bar of the past covers."""
    own = (row for row in waterfall.rows if row.kind not in (RowKind.CHILD_JOBS, RowKind.CHILD_JOB))
    past = (bar for row in own for bar in row.bars if bar.look is not BarLook.PLANNED)
    bars = [*sorted((bar.start, bar.end) for bar in past), (until, until)]
    end, found = bars[0][0], list[tuple[datetime, datetime]]()
    for start, stop in bars:
        if start > end:
            found.append((end, start))
        end = max(end, stop)
    return found


@given(jobs(), st.booleans())
@settings(deadline=None)
def test_every_moment_is_explained(facts: WaterfallFacts, all_attempts: bool) -> None:  # noqa: FBT001 - drawn
    waterfall, row = lay_out(facts, all_attempts=all_attempts), facts.row
    until = row.finished_at if row.state.terminal and row.finished_at else facts.now
    assert not unexplained(waterfall, until)
    for bar in (bar for each in waterfall.rows for bar in each.bars):
        assert bar.start <= bar.end
        assert bar.text
        assert bar.look is not BarLook.HATCHED or bar.group is not None


def test_the_table_has_the_words_of_the_drawing_whole() -> None:
    job = running_job(progress_note="<b>bold</b> " + "long " * 60, progress=0.1)
    picture = draw_waterfall(lay_out(WaterfallFacts(row=job, now=after(9))), LINKS)
    cells = [cell.text or "" for cell in fromstring(picture.table).iter("td")]
    assert any("<b>bold</b> long long" in cell and cell.count("long") == 60 for cell in cells)


def test_screen_readers_have_the_links_and_the_table_alone() -> None:
    attempt = attempt_of(running_job(), AttemptOutcome.FAILED)
    linked = lay_out(WaterfallFacts(row=running_job(attempt=2), attempts=[attempt], now=after(90)))
    root = fromstring(draw_waterfall(linked, LINKS).drawing)
    links = [each for each in root.iter("a") if each.get("href") == "#attempt-1"]
    assert [link.get("aria-label") for link in links] == ["attempt 1: failed on a1"]
    hidden = [each for each in root.iter() if each.get("aria-hidden") == "true"]
    assert not [link for group in hidden for link in group.iter("a")]


@pytest.mark.parametrize(
    "href", ["javascript:alert(1)", "//elsewhere.example", "https://elsewhere.example", "/\\x"]
)
def test_a_link_leads_nowhere_else(href: str) -> None:
    waterfall = lay_out(WaterfallFacts(row=running_job(), now=after(9), child_jobs=[running_job()]))
    with pytest.raises(ValueError, match="expected a link within the console"):
        draw_waterfall(waterfall, WaterfallLinks(toggle_child_jobs=href))


@given(jobs(), st.integers(80, 200))
@settings(deadline=None, max_examples=60)
def test_a_terminal_has_the_same_rows_and_no_line_too_long(facts: WaterfallFacts, width: int) -> None:
    waterfall = lay_out(facts)
    paper = StringIO()
    Console(width=10_000, theme=THEME, file=paper).print(trace_page(facts, waterfall, width))
    _head, *lines = paper.getvalue().split("\n")
    assert max(cell_len(line.rstrip()) for line in lines) <= width
    assert all(sign.isprintable() for line in lines for sign in line)
