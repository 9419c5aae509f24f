"""Pages of agents, queues, breakers, gates and incidents. Heartbeats and slots are not worth an
event each: the refresh shows what they change."""

from warrener.operations import incidents
from warrener.operations.agents import AGENTS, AgentsQuery, list_agents, read_agent
from warrener.operations.breakers import BREAKERS, list_breakers
from warrener.operations.gates import GatesQuery, list_gates
from warrener.operations.queues import QueuesQuery, list_queues, read_queue
from warrener.operations.system import explain_agent_row, explain_queue_head, read_system
from warrener.web.page import PageRequest, View, page
from warrener_contracts.state_machine import TERMINAL, JobState

_LIVE = tuple(state for state in JobState if state not in TERMINAL)


@page("/agents", topics=("agents",), refresh=5.0)
async def show_agents(request: PageRequest) -> View:
    """Show the agents, the last seen first."""
    query = request.read(AgentsQuery)
    found = await list_agents(request.console, query)
    context = {"agents": found, "tones": AGENTS.tones, "is_all": query.all}
    return View("Agents", context | {"is_filtered": bool(request.query)})


@page("/agents/{agent_id:path}", topics=("agents",), refresh=5.0)
async def show_agent(request: PageRequest) -> View:
    """Show one agent: what it runs and what was lost with it."""
    agent_id, console = request.path["agent_id"], request.console
    found = await read_agent(console, agent_id)
    row = (await console.store.agents_by_id([agent_id]))[agent_id]
    explanation = await explain_agent_row(console, row)
    return View(agent_id, {"agent": found, "tones": AGENTS.tones, "explanation": explanation})


@page("/queues", topics=("queues",), refresh=5.0)
async def show_queues(request: PageRequest) -> View:
    """Show the queues by name."""
    query = request.read(QueuesQuery)
    found = await list_queues(request.console, query)
    return View("Queues", {"queues": found, "live": _LIVE, "is_filtered": bool(query.q)})


@page("/queues/{name:path}", topics=("queue:{name}",), refresh=5.0)
async def show_queue(request: PageRequest) -> View:
    """Show one queue: its jobs by type, its agents, and what keeps its jobs waiting."""
    name, console = request.path["name"], request.console
    found = await read_queue(console, name)
    head = next((each for each in await console.store.queue_heads() if each.queue == name), None)
    explanation = await explain_queue_head(console, await read_system(console, [name]), name, head)
    states = (*_LIVE, *(state for state in JobState if state in TERMINAL))
    context = {"queue": found, "states": states, "live": _LIVE, "tones": AGENTS.tones}
    return View(name, context | {"explanation": explanation})


@page("/breakers", topics=("breakers",))
async def show_breakers(request: PageRequest) -> View:
    """Show all circuit breakers, the open ones first; each is opened and closed there."""
    found = (await list_breakers(request.console)).breakers
    stored = [one for one in found if one.since is not None]
    never = [one for one in found if one.since is None]
    return View("Circuit breakers", {"stored": stored, "never": never, "tones": BREAKERS.tones})


@page("/gates", refresh=5.0)
async def show_gates(request: PageRequest) -> View:
    """Show the gates of limits by name; their slots are set there."""
    query = request.read(GatesQuery)
    return View("Gates", {"gates": await list_gates(request.console, query)})


@page("/incidents", topics=("incidents",))
async def show_incidents(request: PageRequest) -> View:
    """Show the incidents, the last raised first."""
    query = request.read(incidents.IncidentsQuery)
    found = await incidents.list_incidents(request.console, query)
    return View("Incidents", {"incidents": found, "tones": incidents.INCIDENTS.tones, "closed": query.closed})


@page("/incidents/{fingerprint:path}", topics=("incidents",))
async def show_incident(request: PageRequest) -> View:
    """Show one incident with the steps of its policy."""
    found = await incidents.read_incident(request.console, request.path["fingerprint"])
    context = {"incident": found, "tones": incidents.INCIDENTS.tones, "step_tones": incidents.STEP_TONES}
    return View(f"Incident {found.kind}", context | {"of_dead_jobs": found.kind == incidents.DEAD_JOBS})
