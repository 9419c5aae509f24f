"""The system around every subject, read with the connection to the broker that all pages share."""

from collections.abc import Collection
from datetime import timedelta

from pydantic import BaseModel

from warrener.explanations import explain
from warrener.explanations.explanation import Explanation
from warrener.explanations.facts import AgentSubject, SystemFacts
from warrener.gathering import gather_schedule, gather_system, queue_subject
from warrener.operations.broker import SharedInspector
from warrener.operations.masked_rows import mask_explanation
from warrener.operations.noun import Backend
from warrener_contracts.topology import DELAY_LEVELS
from warrener_store.agents.rows import AgentRow
from warrener_store.jobs.views import QueueHead
from warrener_store.schedules.rows import ScheduleRow


class DelayDepth(BaseModel):
    """A delay level with the messages that wait on it; None: the broker did not say."""

    name: str
    delay: timedelta
    messages: int | None


async def read_system(backend: Backend, queues: Collection[str] = ()) -> SystemFacts:
    """Read the system with these dispatch queues."""
    return await gather_system(
        backend.store, backend.endpoints, queues, query_broker=backend.shared(SharedInspector).query
    )


async def read_delays(backend: Backend) -> list[DelayDepth]:
    """Read the delay levels, the shortest first."""
    depths = await backend.shared(SharedInspector).count_delayed()
    return [
        DelayDepth(name=level.name, delay=level.delay, messages=depths.get(level.name))
        for level in DELAY_LEVELS
    ]


async def explain_schedule_row(backend: Backend, row: ScheduleRow) -> Explanation:
    """Explain why a schedule starts no job now, or when it does."""
    facts = await gather_schedule(backend.store, await read_system(backend), row)
    return mask_explanation(backend.masker, explain(facts))


async def explain_queue_head(
    backend: Backend, system: SystemFacts, name: str, head: QueueHead | None
) -> Explanation:
    """Explain what keeps agents from the jobs of a queue, or that nothing does."""
    return mask_explanation(backend.masker, explain(await queue_subject(backend.store, system, name, head)))


async def explain_agent_row(backend: Backend, row: AgentRow) -> Explanation:
    """Explain what keeps an agent from work, or that nothing does."""
    facts = AgentSubject(system=await read_system(backend, row.queues), row=row)
    return mask_explanation(backend.masker, explain(facts))
