"""The pages of agents."""

from warrener.operations.agents import AGENTS, AgentsQuery, list_agents, read_agent
from warrener.operations.system import explain_agent_row
from warrener.web.page import Page, PageRequest, View
from warrener.web.queries import read_query

_SEEN = [("", "within an hour"), ("true", "at any time")]


async def show_agents(request: PageRequest) -> View:
    """Show the agents, the last seen first."""
    query = read_query(AgentsQuery, request.query)
    page = await list_agents(request.console, query)
    seen = "true" if query.all else ""
    fields = [
        {"name": "q", "label": "Agent", "value": query.q, "hint": "a part of its id"},
        {"name": "queue", "label": "Queue", "value": query.queue},
        {
            "name": "state",
            "label": "State",
            "value": query.state,
            "type": "select",
            "options": ["", *AGENTS.tones],
        },
        {"name": "all", "label": "Seen", "value": seen, "type": "select", "options": _SEEN},
    ]
    context = {"agents": page, "tones": AGENTS.tones, "fields": fields, "is_filtered": bool(request.query)}
    return View(template="pages/agents.html", title="Agents", context=context)


async def show_agent(request: PageRequest) -> View:
    """Show one agent: what it runs and what was lost with it."""
    agent_id = request.path["agent_id"]
    found = await read_agent(request.console, agent_id)
    row = (await request.console.store.agents_by_id([agent_id]))[agent_id]
    explanation = await explain_agent_row(request.console, row)
    context = {"agent": found, "tones": AGENTS.tones, "explanation": explanation}
    return View(template="pages/agent.html", title=agent_id, context=context)


# Agents change with their heartbeats, which are not worth an event each: the refresh shows them.
PAGES = (
    Page(name="agents", path="/agents", view=show_agents, topics=("agents",), refresh=5.0),
    Page(
        name="agent",
        path="/agents/{agent_id:path}",
        section="agents",
        view=show_agent,
        topics=("agents",),
        refresh=5.0,
    ),
)
