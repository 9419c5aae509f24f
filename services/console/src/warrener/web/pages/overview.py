"""The overview: throughput, success, failures by cause, lag, and what needs somebody."""

from collections.abc import Collection, Mapping

from warrener.operations.breakers import BREAKERS
from warrener.web.api.overview import Overview, OverviewQuery, read_overview
from warrener.web.page import Page, PageRequest, View
from warrener.web.queries import read_query
from warrener.web.trends.pictures import marks_of, sparkline, throughput
from warrener.web.trends.points import StatisticsWindow

WINDOWS: Mapping[StatisticsWindow, str] = {
    StatisticsWindow.HOUR: "Last hour",
    StatisticsWindow.DAY: "Last day",
    StatisticsWindow.WEEK: "Last week",
}
_GOOD_SUCCESS, _FAIR_SUCCESS = 0.99, 0.9
_LATE_SECONDS = 60.0


async def show_overview(request: PageRequest) -> View:
    """Show the whole system."""
    query = read_query(OverviewQuery, request.query)
    found = await read_overview(request.console, query)
    window = WINDOWS[query.window].lower()
    context = {
        "overview": found,
        "windows": [(each.value, words) for each, words in WINDOWS.items()],
        "window_words": window,
        "throughput": throughput(
            found.points,
            marks_of(found.deploys),
            title=f"Jobs that ended, {window}",
            zone=request.zone,
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
        "breaker_tones": BREAKERS.tones,
        "is_empty": is_empty(found),
    }
    return View(template="pages/overview.html", title="Overview", context=context)


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


def topics(_: PageRequest) -> Collection[str]:
    """All that the overview shows."""
    return ("overview",)


PAGES = (
    Page(name="overview", path="/", section="overview", view=show_overview, topics=topics, refresh=10.0),
)
