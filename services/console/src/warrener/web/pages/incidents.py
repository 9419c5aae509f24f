"""The pages of incidents; each is acknowledged, snoozed and closed there."""

from warrener.operations.incidents import (
    DEAD_JOBS,
    INCIDENTS,
    STEP_TONES,
    IncidentsQuery,
    list_incidents,
    read_incident,
)
from warrener.web.page import Page, PageRequest, View
from warrener.web.queries import read_query


async def show_incidents(request: PageRequest) -> View:
    """Show the incidents, the last raised first."""
    query = read_query(IncidentsQuery, request.query)
    page = await list_incidents(request.console, query)
    context = {"incidents": page, "tones": INCIDENTS.tones, "closed": query.closed, "query": request.query}
    return View(template="pages/incidents.html", title="Incidents", context=context)


async def show_incident(request: PageRequest) -> View:
    """Show one incident with the steps of its policy."""
    found = await read_incident(request.console, request.path["fingerprint"])
    context = {
        "incident": found,
        "tones": INCIDENTS.tones,
        "step_tones": STEP_TONES,
        "of_dead_jobs": found.kind == DEAD_JOBS,
    }
    return View(template="pages/incident.html", title=f"Incident {found.kind}", context=context)


PAGES = (
    Page(name="incidents", path="/incidents", view=show_incidents, topics=("incidents",)),
    Page(
        name="incident",
        path="/incidents/{fingerprint:path}",
        section="incidents",
        view=show_incident,
        topics=("incidents",),
    ),
)
