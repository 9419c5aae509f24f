"""The pages of dispatch queues."""

from warrener.operations.agents import AGENTS
from warrener.operations.queues import QueuesQuery, list_queues, read_queue
from warrener.operations.system import explain_queue_head, read_system
from warrener.web.page import PageRequest, View, page
from warrener_contracts.state_machine import TERMINAL, JobState

LIVE = tuple(state for state in JobState if state not in TERMINAL)
OVER = tuple(state for state in JobState if state in TERMINAL)


@page("/queues", topics=("queues",), refresh=5.0)
async def show_queues(request: PageRequest) -> View:
    """Show the queues by name."""
    query = request.read(QueuesQuery)
    found = await list_queues(request.console, query)
    context = {"queues": found, "live": LIVE, "is_filtered": bool(query.q)}
    return View("Queues", context)


@page("/queues/{name:path}", topics=("queue:{name}",), refresh=5.0)
async def show_queue(request: PageRequest) -> View:
    """Show one queue: its jobs by type, its agents, and what keeps its jobs waiting."""
    name = request.path["name"]
    console = request.console
    found = await read_queue(console, name)
    head = next((each for each in await console.store.queue_heads() if each.queue == name), None)
    system = await read_system(console, [name])
    context = {
        "queue": found,
        "states": (*LIVE, *OVER),
        "live": LIVE,
        "tones": AGENTS.tones,
        "explanation": await explain_queue_head(console, system, name, head),
    }
    return View(name, context)
