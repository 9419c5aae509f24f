"""The pages of job types: the list, and one job type with its trends, versions and causes of death."""

from warrener.operations.agents import AGENTS
from warrener.web.api.job_types import JobTypeQuery, JobTypesQuery, list_job_types, read_job_type
from warrener.web.page import Page, PageRequest, View
from warrener.web.pages.overview import WINDOWS, success_tone
from warrener.web.queries import read_query
from warrener.web.trends.pictures import marks_of, sparkline, throughput, trend

_POLICY_DEFAULTS = frozenset({None, False, ""})


async def show_job_types(request: PageRequest) -> View:
    """Show job types by name, each with its last day."""
    query = read_query(JobTypesQuery, request.query)
    page = await list_job_types(request.console, query)
    context = {
        "lines": [
            (
                one,
                sparkline(one.hourly, title=f"Jobs of {one.name} by hour", name=f"type-{place}"),
                success_tone(one.summary.success),
            )
            for place, one in enumerate(page.job_types)
        ],
        "is_complete": page.is_complete,
        "fields": [{"name": "q", "label": "Job type", "value": query.q, "hint": "a part of its name"}],
        "is_filtered": bool(query.q),
    }
    return View(template="pages/job_types.html", title="Job types", context=context)


async def show_job_type(request: PageRequest) -> View:
    """Show one job type."""
    name = request.path["name"]
    query = read_query(JobTypeQuery, request.query)
    found = await read_job_type(request.console, name, query)
    marks, window = marks_of(found.deploys), WINDOWS[query.window].lower()
    context = {
        "one": found,
        "windows": [(each.value, words) for each, words in WINDOWS.items()],
        "window_words": window,
        "trend": trend(
            found.points,
            marks,
            title=f"Duration and success of {name}, {window}",
            zone=request.zone,
        ),
        "throughput": throughput(
            found.points, marks, title=f"Jobs of {name} that ended, {window}", zone=request.zone
        ),
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
    return View(template="pages/job_type.html", title=name, context=context)


PAGES = (
    Page(name="job-types", path="/job-types", view=show_job_types, topics=("jobs",)),
    Page(
        name="job-type",
        path="/job-types/{name:path}",
        section="job-types",
        view=show_job_type,
        topics=("type:{name}",),
        refresh=10.0,
    ),
)
