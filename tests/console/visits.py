"""The pages that the browser visits: every page of the site, with what fills its path."""

from collections.abc import Callable
from typing import NamedTuple

from tests.console.site import LiveSite


class Visit(NamedTuple):
    """A page: its name in file names of pictures, and its path on a site."""

    name: str
    path: Callable[[LiveSite], str]


def _at(path: str) -> Callable[[LiveSite], str]:
    return lambda _: path


def _of(path: str, sample: str) -> Callable[[LiveSite], str]:
    return lambda site: path.format(site.samples[sample])


VISITS = (
    Visit("overview", _at("/")),
    Visit("search", _at("/search?q=import")),
    Visit("jobs", _at("/jobs")),
    Visit("jobs-dead", _at("/jobs?state=dead")),
    Visit("job-done", _of("/jobs/{}", "done")),
    Visit("job-retried", _of("/jobs/{}", "retried")),
    Visit("job-running", _of("/jobs/{}", "running")),
    Visit("job-waiting", _of("/jobs/{}", "waiting")),
    Visit("job-dead", _of("/jobs/{}", "dead")),
    Visit("job-request", _at("/jobs/new?type=import.rows")),
    Visit("job-types", _at("/job-types")),
    Visit("job-type", _at("/job-types/flights.load?window=week")),
    Visit("schedules", _at("/schedules")),
    Visit("schedule", _of("/schedules/{}", "schedule")),
    Visit("schedule-edit", _of("/schedules/{}/edit", "schedule")),
    Visit("schedule-new", _at("/new-schedule")),
    Visit("backfill", _of("/schedules/{}/backfill", "schedule")),
    Visit("dead-letters", _at("/dead-letters")),
    Visit("dead-letter-cause", _of("/dead-letters/{}", "cause")),
    Visit("redrives", _at("/redrives")),
    Visit("incidents", _at("/incidents")),
    Visit("incident", _of("/incidents/{}", "incident")),
    Visit("agents", _at("/agents")),
    Visit("agent", _of("/agents/{}", "agent")),
    Visit("queues", _at("/queues")),
    Visit("queue", _of("/queues/{}", "queue")),
    Visit("parked", _at("/parked")),
    Visit("breakers", _at("/breakers")),
    Visit("audit", _at("/audit")),
    Visit("about", _at("/about")),
)
