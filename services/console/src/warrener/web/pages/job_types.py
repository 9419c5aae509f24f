"""The pages of job types: the list, and one job type with its trends, versions and causes of death."""

from warrener.operations.agents import AGENTS
from warrener.operations.job_type import JobTypeQuery, read_job_type
from warrener.operations.job_types import JobTypesQuery, list_job_types
from warrener.web.charts.throughput import draw_throughput
from warrener.web.charts.trend import draw_trend
from warrener.web.page import PageRequest, View, page
from warrener.web.pages.overview import WINDOWS, success_tone
from warrener.web.trends.pictures import buckets_of, marks_of, sparkline

_POLICY_DEFAULTS = frozenset({None, False, ""})


@page("/job-types", topics=("jobs",))
async def show_job_types(request: PageRequest) -> View:
    """Show job types by name, each with its last day."""
    query = request.read(JobTypesQuery)
    listed = await list_job_types(request.console, query)
    context = {
        "lines": [
            (
                one,
                sparkline(one.hourly, title=f"Jobs of {one.name} by hour", name=f"type-{place}"),
                success_tone(one.summary.success),
            )
            for place, one in enumerate(listed.job_types)
        ],
        "is_complete": listed.is_complete,
        "is_filtered": bool(query.q),
    }
    return View("Job types", context)


@page("/job-types/{name:path}", topics=("type:{name}",), refresh=10.0)
async def show_job_type(request: PageRequest) -> View:
    """Show one job type."""
    name = request.path["name"]
    query = request.read(JobTypeQuery)
    found = await read_job_type(request.console, name, query.window)
    window, buckets = WINDOWS[query.window].lower(), buckets_of(found.points)
    marks, zone = marks_of(found.deploys), request.zone
    ended, went = f"Jobs of {name} that ended, {window}", f"Duration and success of {name}, {window}"
    context = {
        "one": found,
        "windows": [(each.value, words) for each, words in WINDOWS.items()],
        "window_words": window,
        "trend": draw_trend(buckets, title=went, deploys=marks, zone=zone),
        "throughput": draw_throughput(buckets, title=ended, deploys=marks, zone=zone),
        "cause_lines": [
            (one, sparkline(one.counts, title=f"Deaths by {one.error_type}", name=f"cause-{place}"))
            for place, one in enumerate(found.causes)
        ],
        "success_tone": success_tone(found.summary.success),
        "agent_tones": AGENTS.tones,
        "policy": {
            key.replace("_", " "): value
            for key, value in (found.policy or {}).items()
            if not (isinstance(value, (str, int, float, bool, type(None))) and value in _POLICY_DEFAULTS)
            and value not in ([], {})
        },
    }
    return View(name, context)
