"""Pages of statistics: the overview with what needs somebody, and the job types with their trends, versions
and causes of death."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from urllib.parse import quote

from warrener.operations.agents import AGENTS
from warrener.operations.dead_letters import NO_CAUSE
from warrener.operations.job_type import JobTypeQuery, read_job_type
from warrener.operations.job_types import DeploySummary, JobTypesQuery, list_job_types, policy_of
from warrener.operations.overview import Need, NeedKind, NeedSubject, OverviewQuery, read_overview
from warrener.operations.series import SeriesPoint
from warrener.render.jobs import limit_text, rule_text, unique_text
from warrener.web.charts.over_time import DeployMark, TimeBucket, draw_throughput, draw_trend
from warrener.web.page import PageRequest, View, page

_FILTERS_OF_NEEDS = {NeedKind.AGENTS: "?state=silent", NeedKind.SCHEDULES: "?state=overdue"}
"""The filter of the page that lists all of a kind; none: the page lists no others."""
_MAX_MARKS = 12
_SAME_DEPLOY = timedelta(hours=1)
_MAX_BARS = 84  # a phone shows them, three pixels each


@page("/", topics=("overview",), refresh=10.0)
async def show_overview(request: PageRequest) -> View:
    query = request.read(OverviewQuery)
    found = await read_overview(request.console, query)
    buckets, marks = _buckets_of(found.points), _marks_of(found.deploys)
    title = f"Jobs that ended, last {query.window}"
    context = {
        "overview": found,
        "throughput": draw_throughput(buckets, title=title, deploys=marks, zone=request.zone),
        "need_address": _need_address,
        "is_empty": not (
            found.summary.jobs or found.queues or found.agents.alive or any(found.live.values())
        ),
    }
    return View("Overview", context)


def _need_address(need: Need, subject: NeedSubject | None = None) -> str:
    """The page of one trouble; without one, that of all, unless there is only one. Breakers have one page."""
    path = f"/{need.kind.value.replace('_', '-')}"
    if subject is None and len(need.subjects) == 1:
        subject = need.subjects[0]
    if subject is None or need.kind is NeedKind.BREAKERS:
        return path + _FILTERS_OF_NEEDS.get(need.kind, "")
    return f"{path}/{quote(subject.key or NO_CAUSE, safe='')}"


@page("/job-types", topics=("jobs",))
async def show_job_types(request: PageRequest) -> View:
    """Show job types by name, each with its last day."""
    query = request.read(JobTypesQuery)
    listed = await list_job_types(request.console, query)
    return View("Job types", {"listed": listed, "is_filtered": bool(query.q)})


@page("/job-types/{name:path}", topics=("type:{name}",), refresh=10.0)
async def show_job_type(request: PageRequest) -> View:
    name, zone = request.path["name"], request.zone
    query = request.read(JobTypeQuery)
    found = await read_job_type(request.console, name, query.window)
    buckets, marks = _buckets_of(found.points), _marks_of(found.deploys)
    ended = f"Jobs of {name} that ended, last {query.window}"
    went = f"Duration and success of {name}, last {query.window}"
    policy, declared = found.policy or {}, policy_of(found)
    if declared is not None:
        policy |= {"retry_rules": [*map(rule_text, declared.retry_rules)]}
        policy |= {"gates": [], "limits": [*map(limit_text, declared.gates)]}
        policy |= {"unique": declared.unique and unique_text(declared.unique)}
    context = {
        "one": found,
        "trend": draw_trend(buckets, title=went, deploys=marks, zone=zone),
        "throughput": draw_throughput(buckets, title=ended, deploys=marks, zone=zone),
        "agent_tones": AGENTS.tones,
        "policy": {key: value for key, value in policy.items() if value not in (None, False, "", [], {})},
    }
    return View(name, context)


# -- pictures ------------------------------------------------------------------------------------------------


def _marks_of(deploys: Iterable[DeploySummary]) -> list[DeployMark]:
    """The newest deploys as marks; one for the job types that were deployed together."""
    marks: list[DeployMark] = []
    for deploy in sorted(deploys, key=lambda one: one.first_seen_at):
        last = next((mark for mark in reversed(marks) if mark.version == deploy.code_version), None)
        if last is None or deploy.first_seen_at - last.at > _SAME_DEPLOY:
            marks.append(DeployMark(deploy.first_seen_at, deploy.code_version))
    return marks[-_MAX_MARKS:]


def _buckets_of(points: Sequence[SeriesPoint]) -> list[TimeBucket]:
    """Join neighbours, if there are many points; their durations are those of the slowest one."""
    size, buckets = -(-len(points) // _MAX_BARS), list[TimeBucket]()
    for group in (points[at : at + size] for at in range(0, len(points), size)):
        slowest = max(group, key=lambda point: point.p95 or 0.0)
        bucket = TimeBucket(
            start=group[0].starts_at,
            succeeded=sum(point.succeeded for point in group),
            failed=sum(point.failed for point in group),
            # Attempts that failed or were lost, and that another attempt followed.
            retried=sum(max(0, one.failed_attempts + one.lost_attempts - one.dead) for one in group),
            cancelled=sum(point.cancelled for point in group),
            p50=None if slowest.p50 is None else timedelta(seconds=slowest.p50),
            p95=None if slowest.p95 is None else timedelta(seconds=slowest.p95),
        )
        buckets.append(bucket)
    return buckets
