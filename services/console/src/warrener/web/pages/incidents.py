"""The pages of incidents; each is acknowledged, snoozed and closed there."""

from warrener.operations.incidents import (
    DEAD_JOBS,
    INCIDENTS,
    STEP_TONES,
    IncidentsQuery,
    list_incidents,
    read_incident,
)
from warrener.web.page import PageRequest, View, page


@page("/incidents", topics=("incidents",))
async def show_incidents(request: PageRequest) -> View:
    """Show the incidents, the last raised first."""
    query = request.read(IncidentsQuery)
    found = await list_incidents(request.console, query)
    context = {"incidents": found, "tones": INCIDENTS.tones, "closed": query.closed}
    return View("Incidents", context)


@page("/incidents/{fingerprint:path}", topics=("incidents",))
async def show_incident(request: PageRequest) -> View:
    """Show one incident with the steps of its policy."""
    found = await read_incident(request.console, request.path["fingerprint"])
    context = {
        "incident": found,
        "tones": INCIDENTS.tones,
        "step_tones": STEP_TONES,
        "of_dead_jobs": found.kind == DEAD_JOBS,
    }
    return View(f"Incident {found.kind}", context)
