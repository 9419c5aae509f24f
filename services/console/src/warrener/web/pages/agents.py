"""The pages of agents."""

from collections.abc import Collection

from warrener.web.api.agents import AgentsQuery, AgentState, list_agents, read_agent
from warrener.web.page import Page, PageRequest, View
from warrener.web.queries import form_field, read_query
from warrener.web.system import explain_agent_row

AGENT_TONES: dict[AgentState, str] = {
    "alive": "good",
    "draining": "warning",
    "in trouble": "error",
    "silent": "soft",
}
_SEEN = [("", "within an hour"), ("true", "at any time")]


async def show_agents(request: PageRequest) -> View:
    """Show the agents, the last seen first."""
    query = read_query(AgentsQuery, request.query)
    page = await list_agents(request.console, query)
    fields = [
        form_field("q", "Agent", query.q, hint="a part of its id"),
        form_field("queue", "Queue", query.queue),
        form_field("state", "State", query.state, kind="select", options=["", *AGENT_TONES]),
        form_field("all", "Seen", "true" if query.all else "", kind="select", options=_SEEN),
    ]
    context = {"agents": page, "tones": AGENT_TONES, "fields": fields, "is_filtered": bool(request.query)}
    return View(template="pages/agents.html", title="Agents", context=context)


async def show_agent(request: PageRequest) -> View:
    """Show one agent: what it runs and what was lost with it."""
    agent_id = request.path["agent_id"]
    found = await read_agent(request.console, agent_id)
    row = (await request.console.store.agents_by_id([agent_id]))[agent_id]
    explanation = await explain_agent_row(request.console, row)
    context = {"agent": found, "one": found.summary, "tones": AGENT_TONES, "explanation": explanation}
    return View(template="pages/agent.html", title=agent_id, context=context)


def topics(_: PageRequest) -> Collection[str]:
    """Agents change with their heartbeats, which are not worth an event each: the refresh shows them."""
    return ("agents",)


PAGES = (
    Page(name="agents", path="/agents", section="agents", view=show_agents, topics=topics, refresh=5.0),
    Page(
        name="agent",
        path="/agents/{agent_id:path}",
        section="agents",
        view=show_agent,
        topics=topics,
        refresh=5.0,
    ),
)
