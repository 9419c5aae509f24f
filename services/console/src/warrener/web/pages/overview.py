"""The overview: what needs somebody, throughput, success, failures by cause, and lag."""

from collections.abc import Mapping
from urllib.parse import quote

from warrener.operations.dead_letters import NO_CAUSE
from warrener.operations.overview import Need, NeedKind, NeedSubject, Overview, OverviewQuery, read_overview
from warrener.operations.series import StatisticsWindow
from warrener.web.charts.throughput import draw_throughput
from warrener.web.page import PageRequest, View, page
from warrener.web.trends.pictures import buckets_of, marks_of, sparkline

WINDOWS: Mapping[StatisticsWindow, str] = {
    StatisticsWindow.HOUR: "Last hour",
    StatisticsWindow.DAY: "Last day",
    StatisticsWindow.WEEK: "Last week",
}
NEED_WORDS: Mapping[NeedKind, tuple[str, str, str, str]] = {
    NeedKind.BREAKERS: (
        "circuit breaker holds jobs back",
        "circuit breakers hold jobs back",
        "Close…",
        "/breakers",
    ),
    NeedKind.INCIDENTS: ("incident", "incidents", "Acknowledge…", "/incidents"),
    NeedKind.QUEUES: ("queue has jobs and no agent", "queues have jobs and no agent", "See why", "/queues"),
    NeedKind.AGENTS: ("agent is silent", "agents are silent", "See why", "/agents?state=silent"),
    NeedKind.SCHEDULES: (
        "schedule is overdue",
        "schedules are overdue",
        "See why",
        "/schedules?state=overdue",
    ),
    NeedKind.DEAD_LETTERS: ("dead letter", "dead letters", "Redrive…", "/dead-letters"),
}
"""One and many of a kind in words, the word of the button, and the page that lists all."""
_GOOD_SUCCESS, _FAIR_SUCCESS = 0.99, 0.9
_LATE_SECONDS = 60.0


@page("/", topics=("overview",), refresh=10.0)
async def show_overview(request: PageRequest) -> View:
    """Show the whole system."""
    query = request.read(OverviewQuery)
    found = await read_overview(request.console, query)
    window = WINDOWS[query.window].lower()
    title, marks = f"Jobs that ended, {window}", marks_of(found.deploys)
    context = {
        "overview": found,
        "windows": [(each.value, words) for each, words in WINDOWS.items()],
        "window_words": window,
        "throughput": draw_throughput(
            buckets_of(found.points), title=title, deploys=marks, zone=request.zone
        ),
        "type_lines": [
            (one, sparkline(one.counts, title=f"Jobs of {one.name}", name=f"type-{place}"))
            for place, one in enumerate(found.job_types)
        ],
        "cause_lines": [
            (one, sparkline(one.counts, title=f"Deaths of {one.job_type}", name=f"cause-{place}"))
            for place, one in enumerate(found.causes)
        ],
        "success_tone": success_tone(found.summary.success),
        "lag_tone": lag_tone(found),
        "need_words": NEED_WORDS,
        "need_address": need_address,
        "is_empty": is_empty(found),
    }
    return View("Overview", context)


def need_address(need: Need, subject: NeedSubject | None = None) -> str:
    """The page of one trouble; without one, that of all, unless there is only one. Breakers have one page."""
    all_of_kind = NEED_WORDS[need.kind][-1]
    if subject is None and len(need.subjects) == 1:
        subject = need.subjects[0]
    if subject is None or need.kind is NeedKind.BREAKERS:
        return all_of_kind
    return f"{all_of_kind.partition('?')[0]}/{quote(subject.key or NO_CAUSE, safe='')}"


def success_tone(success: float | None) -> str | None:
    """The tone of a share of successes; None: neither good nor bad."""
    if success is None or success >= _GOOD_SUCCESS:
        return None
    return "warning" if success >= _FAIR_SUCCESS else "error"


def lag_tone(found: Overview) -> str | None:
    """The tone of the time for which the first queued job waits."""
    oldest = min((one.oldest for one in found.queues if one.oldest is not None), default=None)
    late = oldest is not None and (found.now - oldest).total_seconds() > _LATE_SECONDS
    return "warning" if late else None


def is_empty(found: Overview) -> bool:
    """True if no agent, job or job type is known."""
    return not (found.summary.jobs or found.queues or found.agents.alive or any(found.live.values()))
