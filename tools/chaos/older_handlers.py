"""An agent of an older release: it serves the same queue, and knows only one of its job types."""

from tools.chaos.handlers import short

from warrener_agent import Agent, Backoff

agent = Agent()
agent.job(
    "chaos.short",
    queue="alpha",
    backoff=Backoff.fixed(1, jitter=0.2),
    max_attempts=8,
    max_lost_attempts=1000,
    max_crashes=1000,
)(short)
