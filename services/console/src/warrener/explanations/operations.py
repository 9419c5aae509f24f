"""Why a queue is not emptied, an agent takes nothing, or a job type is not run. Pure."""

from functools import partial

from warrener.explanations import delivery
from warrener.explanations import surroundings as around
from warrener.explanations.causes import Cause
from warrener.explanations.explanation import Explanation, Walk, first
from warrener.explanations.facts import (
    AgentSubject,
    QueueSubject,
    SystemFacts,
    TypeSubject,
    consumes_nothing,
    counted,
    free_slots,
    names,
)
from warrener.explanations.jobs import held
from warrener.explanations.suggestions import DOCTOR, another_agent, show_queue
from warrener.render.times import ago, span
from warrener_contracts.topology import DISPATCH, RETURN
from warrener_store.agents.rows import AgentRow

# -- queues ------------------------------------------------------------------------------------------------


def explain_queue(facts: QueueSubject) -> Explanation:
    """Explain a dispatch queue: the first thing that keeps agents from its jobs."""
    system, queue = facts.system, facts.name
    walk = Walk(f"queue {queue}", _queue_state(facts), system.now, facts.oldest)
    around.note_troubles(walk, system)
    since = facts.refusing_since or facts.oldest
    is_refusing = facts.refusing_since is not None and facts.unpublished
    found = first(
        lambda: around.check_store(walk, system),
        lambda: held(walk, pause, "its jobs") if (pause := system.breakers.find_pause(queue)) else None,
        lambda: around.check_broker(walk, system),
        lambda: delivery.check_queue_exists(walk, system, queue, since),
        *(
            partial(delivery.check_binding, walk, system, queue, exchange, since)
            for exchange in (DISPATCH, RETURN)
        ),
        lambda: around.check_supervisor(walk, system, "stores heartbeats and publishes what waits"),
        lambda: delivery.refusing(walk, queue, facts.refusing_since, "its jobs") if is_refusing else None,
        *(
            partial(delivery.check_agents, walk, system, queue, job_type, since=since)
            for job_type in facts.waiting_types or (None,)
        ),
    )
    return found or walk.end(
        "queue",
        Cause.QUEUE_WORKS,
        "Its agents have free slots",
        since=facts.oldest,
        next="They take what waits, in order",
        over=True,
    )


def _queue_state(facts: QueueSubject) -> str:
    known = facts.system.queues.get(facts.name)
    if known is None:
        return "not queried"
    return delivery.queue_line(known) if known.exists else "does not exist"


# -- agents ------------------------------------------------------------------------------------------------


def explain_agent(facts: AgentSubject) -> Explanation:
    """Explain an agent: ended, silent, draining, full, or at work."""
    system, row = facts.system, facts.row
    walk = Walk(f"agent {row.agent_id}", _agent_state(system, row), system.now, row.last_seen_at)
    around.note_troubles(walk, system)
    absent = first(
        lambda: around.check_broker(walk, system),
        lambda: _silent(walk, system, row) if system.is_silent(row) else None,
        lambda: _just_gone(walk, system, row),
    )
    if absent is not None:
        return absent
    walk.passed("heartbeats", f"seen {ago(row.last_seen_at, system.now)}")
    if row.draining:
        return walk.end(
            "drain",
            Cause.AGENTS_DRAINING,
            f"The agent is draining: it takes no further jobs, with {counted(row.running, 'attempt')} to end",
            *another_agent(row.queues[0] if row.queues else "default"),
            next="It ends after its last attempt, or releases what still runs at its shutdown timeout",
        )
    if row.trouble is not None and around.is_permission(row.trouble):
        return around.refused(walk, "the agent", row.trouble)
    if row.trouble is not None:
        return walk.end(
            "ledger",
            Cause.LEDGER_UNREACHABLE,
            "The agent cannot claim attempts",
            DOCTOR,
            detail=row.trouble,
            next="It has returned its messages, and consumes again once its ledger answers",
        )
    full = [queue for queue in row.queues if not free_slots(row, queue)]
    if full:
        return walk.end(
            "slots",
            Cause.SLOTS_FULL,
            f"All {row.slots} slots of the agent for queue {', '.join(full)} are taken",
            *another_agent(full[0]),
            next="It takes the next job when an attempt ends",
        )
    types = "" if row.job_types is None else f" of {counted(len(row.job_types), 'job type')}"
    running = counted(row.running, "attempt") if row.running else "nothing"
    return walk.end(
        "slots",
        Cause.AGENT_WORKS,
        f"The agent runs {running}, and has free slots for jobs{types} in queue {', '.join(row.queues)}",
        *map(show_queue, row.queues),
        since=row.started_at,
        next="It takes the next job there",
        over=True,
    )


def _just_gone(walk: Walk, system: SystemFacts, row: AgentRow) -> Explanation | None:
    if not consumes_nothing(system, row):
        return None
    return walk.end(
        "consumers",
        Cause.AGENT_GONE,
        "The agent consumes no queue any longer: it has just ended or been cut off",
        *another_agent(row.queues[0]),
        since=row.last_seen_at,
        next="Its attempts go to other agents once it has been silent for some seconds",
    )


def _agent_state(system: SystemFacts, row: AgentRow) -> str:
    if system.is_silent(row):
        return "ended" if row.draining else "silent"
    return "draining" if row.draining else "alive"


def _silent(walk: Walk, system: SystemFacts, row: AgentRow) -> Explanation:
    if system.no_supervisor:
        found = around.check_supervisor(walk, system, "stores heartbeats", row.last_seen_at)
        assert found is not None
        return found
    if row.draining:
        return walk.end(
            "heartbeats",
            Cause.AGENT_ENDED,
            "The agent has drained and ended",
            *map(show_queue, row.queues),
            since=row.last_seen_at,
            next="",
            over=True,
        )
    consumed = [queue for queue in row.queues if (known := system.queues.get(queue)) and known.consumers]
    others = [agent for queue in row.queues for agent in system.alive_of(queue)]
    if consumed and not others:
        return walk.end(
            "heartbeats",
            Cause.AGENT_STALLED,
            "The agent is connected and sends no heartbeat: it is frozen, blocked or cut off",
            DOCTOR,
            since=row.last_seen_at,
            next="A supervisor has given its attempts to others; the broker closes its connection",
        )
    return walk.end(
        "heartbeats",
        Cause.AGENT_GONE,
        f"The agent fell silent without a goodbye, {span(row.last_seen_at - row.started_at)} after its start",
        *another_agent(row.queues[0] if row.queues else "default"),
        since=row.last_seen_at,
        next=f"Its attempts went to other agents; its queues are served by {names(others)}"
        if others
        else "Its attempts wait: no other agent serves its queues",
    )


# -- job types ---------------------------------------------------------------------------------------------


def explain_type(facts: TypeSubject) -> Explanation:
    """Explain a job type: held by a breaker, without an agent, or served."""
    system, row = facts.system, facts.row
    walk = Walk(f"job type {row.name}", f"queue {row.queue}", system.now, row.announced_at)
    around.note_troubles(walk, system)
    since = row.announced_at
    walk.passed("announcement", f"by {row.announced_by}, {ago(since, system.now)}")
    blocking = system.breakers.find_blocking(row.name, row.policy, row.queue)
    found = first(
        lambda: held(walk, blocking, "its jobs") if blocking is not None else None,
        lambda: around.check_broker(walk, system),
        lambda: delivery.check_queue_exists(walk, system, row.queue, since),
        lambda: delivery.check_agents(walk, system, row.queue, row.name, since=since),
    )
    return found or walk.end(
        "agents",
        Cause.TYPE_SERVED,
        f"Agents of queue {row.queue} know the job type and have free slots",
        show_queue(row.queue),
        since=since,
        next="They take its jobs",
        over=True,
    )
