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
        f"its agents have free slots: {_queue_state(facts)}",
        since=facts.oldest,
        next="its agents take what waits, in order",
        command="warrener agents",
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
    seen = f"seen {ago(row.last_seen_at, system.now)}"
    absent = first(
        lambda: around.check_broker(walk, system),
        lambda: _silent(walk, system, row, seen) if system.is_silent(row) else None,
        lambda: _just_gone(walk, system, row, seen),
    )
    if absent is not None:
        return absent
    walk.passed("heartbeats", seen)
    if row.draining:
        return walk.end(
            "drain",
            Cause.AGENTS_DRAINING,
            f"it is draining: it takes no further jobs, and {counted(row.running, 'attempt')} still run",
            next="it ends when they have ended, or releases them when its shutdown timeout is over",
            command=_another(row),
        )
    if row.trouble is not None and around.is_permission(row.trouble):
        return around.refused(walk, "the broker refuses it: ", row.trouble)
    if row.trouble is not None:
        return walk.end(
            "ledger",
            Cause.LEDGER_UNREACHABLE,
            f"it cannot claim attempts: {row.trouble}",
            next="it has returned its messages, and consumes again once its ledger answers",
            command="warrener doctor",
        )
    full = [queue for queue in row.queues if not free_slots(row, queue)]
    if full:
        return walk.end(
            "slots",
            Cause.SLOTS_FULL,
            f"all its {row.slots} slots of queue {', '.join(full)} are taken",
            next="it takes the next job when an attempt ends",
            command=f"warrener agent MODULE --queue {full[0]}",
        )
    types = "" if row.job_types is None else f", knows {counted(len(row.job_types), 'job type')}"
    return walk.end(
        "slots",
        Cause.AGENT_WORKS,
        f"it serves {', '.join(row.queues)} with free slots, runs {counted(row.running, 'attempt')}{types}",
        since=row.started_at,
        next="it takes the next job of its queues",
        command="warrener agents",
        over=True,
    )


def _just_gone(walk: Walk, system: SystemFacts, row: AgentRow, seen: str) -> Explanation | None:
    if not consumes_nothing(system, row):
        return None
    return walk.end(
        "consumers",
        Cause.AGENT_GONE,
        f"no queue of it has a consumer, though it was {seen}: it has just ended or been cut off",
        since=row.last_seen_at,
        next="its attempts go to other agents once it has been silent for some seconds",
        command=_another(row),
    )


def _another(row: AgentRow) -> str:
    return f"warrener agent MODULE --queue {row.queues[0]}" if row.queues else "warrener agent MODULE"


def _agent_state(system: SystemFacts, row: AgentRow) -> str:
    if system.is_silent(row):
        return "ended" if row.draining else "silent"
    return "draining" if row.draining else "alive"


def _silent(walk: Walk, system: SystemFacts, row: AgentRow, seen: str) -> Explanation:
    if system.no_supervisor:
        found = around.check_supervisor(walk, system, "stores heartbeats", row.last_seen_at)
        assert found is not None
        return found
    if row.draining:
        return walk.end(
            "heartbeats",
            Cause.AGENT_ENDED,
            f"it has drained and ended, {seen}",
            since=row.last_seen_at,
            next="nothing: other agents serve its queues",
            command="warrener agents",
            over=True,
        )
    consumed = [queue for queue in row.queues if (known := system.queues.get(queue)) and known.consumers]
    others = [agent for queue in row.queues for agent in system.alive_of(queue)]
    if consumed and not others:
        return walk.end(
            "heartbeats",
            Cause.AGENT_STALLED,
            f"it is connected and sends no heartbeat, {seen}: frozen, blocked or cut off",
            since=row.last_seen_at,
            next="the supervisor has given its attempts to others; the broker closes its connection",
            command="warrener doctor",
        )
    return walk.end(
        "heartbeats",
        Cause.AGENT_GONE,
        f"it fell silent without a goodbye, {seen}, after {span(row.last_seen_at - row.started_at)}",
        since=row.last_seen_at,
        next=f"its attempts went to other agents; {names(others)} serve its queues"
        if others
        else "its attempts wait: no other agent serves its queues",
        command=_another(row),
    )


# -- job types ---------------------------------------------------------------------------------------------


def explain_type(facts: TypeSubject) -> Explanation:
    """Explain a job type: held by a breaker, without an agent, or served."""
    system, row = facts.system, facts.row
    walk = Walk(f"job type {row.name}", f"queue {row.queue}", system.now, row.announced_at)
    around.note_troubles(walk, system)
    since = row.announced_at
    walk.passed("announcement", f"by {row.announced_by}, {ago(since, system.now)}")
    found = first(
        lambda: _held(walk, facts),
        lambda: around.check_broker(walk, system),
        lambda: delivery.check_queue_exists(walk, system, row.queue, since),
        lambda: delivery.check_agents(walk, system, row.queue, row.name, since=since),
    )
    return found or walk.end(
        "agents",
        Cause.TYPE_SERVED,
        f"agents of queue {row.queue} know it and have free slots",
        since=since,
        next="they take its jobs",
        command="warrener agents",
        over=True,
    )


def _held(walk: Walk, facts: TypeSubject) -> Explanation | None:
    row = facts.row
    breaker = facts.system.breakers.find_blocking(row.name, row.policy)
    if breaker is None:
        return None
    return walk.end(
        "breakers",
        Cause.BREAKER_OPEN,
        f"its jobs are held back by {breaker.name}: {' '.join(breaker.reason.split())}",
        since=breaker.since,
        until=breaker.until,
        next="they go on when the breaker closes",
        command=f"warrener breaker show {breaker.name}",
        by_itself=breaker.until is not None,
    )
