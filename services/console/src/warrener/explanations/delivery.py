"""The way from a published dispatch to an agent: the queue, its bindings, and the agents that serve it. Pure.

Each function adds its steps to the walk, and returns the explanation if the walk ends there.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from warrener.explanations.causes import Cause
from warrener.explanations.explanation import Explanation, Walk, first
from warrener.explanations.facts import (
    AgentSubject,
    JobFacts,
    QueueFacts,
    QueueSubject,
    Subject,
    SystemFacts,
    TypeSubject,
    counted,
    ended_agents,
    free_slots,
    knows,
    names,
)
from warrener.explanations.suggestions import another_agent, cancel_job, run, show_agent, show_job, show_queue
from warrener.explanations.surroundings import check_supervisor, is_permission, refused
from warrener_contracts.topology import dispatch_queue
from warrener_store.agents.rows import AgentRow

_RECENT, _TOGETHER = timedelta(hours=1), timedelta(seconds=5)
_LOST_AFTER = timedelta(seconds=30)
"""A dispatch whose queue is empty for this long is lost: it is on its way for milliseconds."""


# -- the queue ---------------------------------------------------------------------------------------------


def check_queue_exists(
    walk: Walk, system: SystemFacts, queue: str, since: datetime | None
) -> Explanation | None:
    """End the walk if the dispatch queue does not exist."""
    name = dispatch_queue(queue).name
    known = system.queues.get(queue)
    if known is None:
        walk.unknown("queue", f"{name} could not be queried")
        return None
    if known.exists:
        return None
    again = "declares it and publishes its jobs again under the same attempt numbers"
    return walk.end(
        "queue",
        Cause.QUEUE_MISSING,
        f"Queue {name} does not exist: it was deleted, or never declared",
        run("warrener supervisor" if system.no_supervisor else "warrener topology --check"),
        since=since,
        next=f"{'Start a supervisor, for none runs: it' if system.no_supervisor else 'A supervisor'} {again}",
    )


def check_binding(
    walk: Walk, system: SystemFacts, queue: str, exchange: str, since: datetime | None
) -> Explanation | None:
    """End the walk if messages of the exchange do not reach the queue."""
    known = system.queues.get(queue) or QueueFacts()
    name = dispatch_queue(queue).name
    if known.unbound is None:
        if system.bindings_unknown is not None:
            walk.unknown("binding", f"{exchange} → {name}: {system.bindings_unknown}")
        return None
    if exchange not in known.unbound:
        walk.passed("binding", f"{exchange} → {name}")
        return None
    return walk.end(
        "binding",
        Cause.BINDING_MISSING,
        f"Queue {name} is not bound to {exchange}, from which its messages come",
        *another_agent(queue),
        since=since,
        next="An agent of the queue binds it when it starts, a supervisor when it publishes again",
    )


def refusing(walk: Walk, queue: str, since: datetime | None, subject: str) -> Explanation:
    """End the walk: the queue exists and does not take messages."""
    return walk.end(
        "queue",
        Cause.QUEUE_REFUSES,
        f"Queue {queue} refuses messages: it is full or without a quorum",
        *another_agent(queue),
        since=since,
        next=f"A supervisor publishes {subject} once the queue accepts messages",
    )


# -- the agents --------------------------------------------------------------------------------------------


def check_agents(
    walk: Walk, system: SystemFacts, queue: str, job_type: str | None = None, *, since: datetime | None = None
) -> Explanation | None:
    """End the walk if no agent takes a message of this queue: none alive, able, free, or with the type."""
    if system.no_supervisor:
        return _by_consumers_alone(walk, system, queue)
    alive = system.alive_of(queue)
    working = [agent for agent in alive if not agent.draining]
    if not working:
        if not alive:
            return _nobody(walk, system, queue, job_type, since)
        draining = f"All agents of queue {queue} are draining and take no further jobs: {names(alive)}"
        return _unserved(walk, queue, Cause.AGENTS_DRAINING, draining)
    able = [agent for agent in working if agent.trouble is None]
    knowing = [agent for agent in able if job_type is None or knows(agent, job_type)]
    return first(
        lambda: None if able else _in_trouble(walk, queue, working),
        lambda: _nobody_consumes(walk, system, queue, able),
        lambda: None if knowing else type_not_known(walk, system, queue, job_type or "", since=since),
        lambda: _slots_full(walk, queue, knowing),
    )


def _consumers(system: SystemFacts, queue: str) -> int | None:
    """The consumers of an existing queue; None if the broker could not be queried."""
    known = system.queues.get(queue)
    return known.consumers if known is not None and known.exists else None


def _by_consumers_alone(walk: Walk, system: SystemFacts, queue: str) -> Explanation | None:
    """Judge by the broker alone: without a supervisor no heartbeat is stored, and silence proves nothing."""
    if _consumers(system, queue) != 0:
        walk.unknown("agents", "their heartbeats are not stored while no supervisor runs")
        return None
    return check_supervisor(walk, system, "stores heartbeats and publishes what waits")


def _nobody(
    walk: Walk, system: SystemFacts, queue: str, job_type: str | None, since: datetime | None
) -> Explanation | None:
    """End the walk if no agent of the queue sends heartbeats."""
    known, consumers = system.agents_of(queue), _consumers(system, queue)
    if consumers and not known:
        walk.unknown("agents", f"queue {queue} has a consumer that has sent no heartbeat yet")
        return None
    if consumers:
        return _stalled(walk, system, queue, known)
    if not known:
        return _never_served(walk, system, queue, job_type, since)
    last = known[0]
    how = "has drained and ended" if last.draining else "fell silent"
    gone = f"No agent of queue {queue} is alive: the last one, {last.agent_id} on {last.host}, {how}"
    return _unserved(walk, queue, Cause.AGENT_GONE, gone, since=last.last_seen_at)


def _unserved(
    walk: Walk,
    queue: str,
    cause: Cause,
    sentence: str,
    *,
    since: datetime | None = None,
    what_next: str = "The next agent of the queue takes its jobs",
) -> Explanation:
    return walk.end("agents", cause, sentence, *another_agent(queue), since=since, next=what_next)


def _stalled(walk: Walk, system: SystemFacts, queue: str, known: list[AgentRow]) -> Explanation:
    last = known[0]
    seen = last.last_seen_at
    if _all_silent_together(system):
        return walk.end(
            "supervisor",
            Cause.SUPERVISOR_STALLED,
            "Agents are connected, but the supervisor stores no heartbeat: it is frozen, or its store slow",
            run("warrener supervisor"),
            since=seen,
            next="All goes on once it works again; another supervisor takes its work",
        )
    return walk.end(
        "agents",
        Cause.AGENT_STALLED,
        f"Agent {last.agent_id} of queue {queue} is connected and sends no heartbeat: frozen or blocked",
        show_agent(last.agent_id),
        since=seen,
        next="The broker closes its connection and gives its messages to another agent of the queue",
    )


def _in_trouble(walk: Walk, queue: str, working: list[AgentRow]) -> Explanation:
    first = working[0]
    if is_permission(first.trouble or ""):
        return refused(walk, f"agent {first.agent_id} of queue {queue}", first.trouble or "")
    return walk.end(
        "ledger",
        Cause.LEDGER_UNREACHABLE,
        f"No agent of queue {queue} can claim attempts, as {first.agent_id} reports",
        show_agent(first.agent_id),
        detail=first.trouble or "",
        next="The agents have returned the messages, and consume again once their ledger answers",
    )


def _all_silent_together(system: SystemFacts) -> bool:
    """True if the supervisor that stores heartbeats is to blame: all agents fell silent at one moment, or
    events wait for it too."""
    seen = [agent.last_seen_at for agent in system.agents if not agent.draining]
    recent = [moment for moment in seen if system.now - moment < _RECENT]
    if not recent or not all(map(system.is_silent, system.agents)):
        return False
    together = len(recent) > 1 and max(recent) - min(recent) < _TOGETHER
    return together or system.statuses_waiting > 0


def _never_served(
    walk: Walk, system: SystemFacts, queue: str, job_type: str | None, since: datetime | None
) -> Explanation:
    sentence = f"No agent has ever served queue {queue}"
    declared = system.job_types.get(job_type) if job_type else None
    if declared is None or declared.queue == queue:
        first_one = "The first agent of the queue takes its jobs"
        return _unserved(walk, queue, Cause.NO_AGENT, sentence, since=since, what_next=first_one)
    sentence += f"; {job_type} belongs to queue {declared.queue}"
    start = f"Start an agent of queue {queue}; or cancel the job, and request it for {declared.queue}"
    return _unserved(walk, queue, Cause.WRONG_QUEUE, sentence, since=since, what_next=start)


def _nobody_consumes(
    walk: Walk, system: SystemFacts, queue: str, working: list[AgentRow]
) -> Explanation | None:
    if _consumers(system, queue) != 0:
        return None
    last = working[0]
    sentence = f"Queue {queue} has no consumer: agent {last.agent_id} has just ended or been cut off"
    return _unserved(walk, queue, Cause.AGENT_GONE, sentence, since=last.last_seen_at)


def type_not_known(
    walk: Walk,
    system: SystemFacts,
    queue: str,
    job_type: str,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
) -> Explanation:
    """End the walk: the agents of the queue do not know the job type, as during a deployment."""
    here = [agent for agent in system.alive_of(queue) if not agent.draining]
    serving = system.serving(job_type)
    others = sorted({other for agent in serving for other in agent.queues} - {queue})
    is_listed = all(agent.job_types is not None for agent in serving)
    elsewhere = f"; agents of queue {', '.join(others)} do" if others and is_listed else ""
    whom = names(here) if here else "the last one"
    return walk.end(
        "job type",
        Cause.TYPE_NOT_KNOWN,
        f"No agent of queue {queue} knows {job_type}: {whom} returns its jobs{elsewhere}",
        *another_agent(queue),
        since=since,
        until=until,
        next="An agent that knows the type takes the job; uncharged, it is tried again",
    )


def _slots_full(walk: Walk, queue: str, working: list[AgentRow]) -> Explanation | None:
    slots = sum(agent.slots for agent in working)
    many = f"{len(working)} agents" if len(working) > 1 else f"agent {working[0].agent_id}"
    if free := sum(free_slots(agent, queue) for agent in working):
        walk.passed("agents", f"{many} of queue {queue}, {free} of {slots} slots free")
        return None
    which = f"All {slots} slots of {many} are" if slots > 1 else f"The one slot of {many} is"
    return walk.end(
        "slots",
        Cause.SLOTS_FULL,
        f"{which} taken by other jobs of queue {queue}",
        *another_agent(queue),
        next="The next job starts when one of them ends, or when another agent serves the queue",
    )


def name_ending_jobs(found: Explanation, facts: Subject) -> Explanation:
    """Note other jobs that have ended agents of the subject's queues: they may end the next agent too."""
    match facts:
        case JobFacts() | TypeSubject():
            queues: tuple[str, ...] = (facts.row.queue,)
        case AgentSubject():
            queues = facts.row.queues
        case QueueSubject():
            queues = (facts.name,)
        case _:
            return found
    own = facts.row.job_id if isinstance(facts, JobFacts) else None
    for queue in queues:
        row = facts.system.ending_jobs.get(queue)
        if row is not None and row.job_id != own:
            ended = f"has ended {counted(ended_agents(row), 'agent')} of queue {queue}"
            found = replace(
                found,
                notes=(*found.notes, f"job {row.job_id} ({row.job_type}) {ended}"),
                suggestions=(*found.suggestions, show_job(row.job_id), cancel_job(row.job_id)),
            )
    return found


# -- its turn ----------------------------------------------------------------------------------------------


def in_turn(walk: Walk, system: SystemFacts, queue: str, attempt: int, since: datetime | None) -> Explanation:
    """End the walk: nothing stands in the way, so the message is in its queue, or was lost."""
    known = system.queues.get(queue)
    waiting = known.waiting if known is not None and known.exists else None
    # Without a supervisor an agent may have taken the message: its events wait.
    does = "records what the agents report"
    if waiting == 0 and (found := check_supervisor(walk, system, does, since)) is not None:
        return found
    if waiting == 0 and since is not None and system.now - since > _LOST_AFTER:
        return walk.end(
            "queue",
            Cause.DISPATCH_MISSING,
            f"The message of attempt {attempt} is lost: queue {queue} is empty and its agents are free",
            show_queue(queue),
            since=since,
            next="A supervisor compares queue and store, and publishes it again under the same number",
        )
    depth = f", which holds {counted(waiting, 'message')}" if waiting else ""
    return walk.end(
        "queue",
        Cause.IN_QUEUE,
        f"Attempt {attempt} is in queue {queue}{depth}",
        show_queue(queue),
        since=since,
        next="The next free agent of the queue takes it",
    )


def queue_line(known: QueueFacts) -> str:
    """The counts of a queue."""
    return f"{counted(known.waiting, 'message')} waiting, {counted(known.consumers, 'consumer')}"
