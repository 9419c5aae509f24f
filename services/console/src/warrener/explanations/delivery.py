"""The way from a published dispatch to an agent: the queue, its bindings, and the agents that serve it. Pure.

Each function adds its steps to the walk, and returns the explanation if the walk ends there.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

from warrener.explanations import facts
from warrener.explanations import suggestions as suggest
from warrener.explanations.causes import Cause
from warrener.explanations.explanation import Explanation, Walk
from warrener.explanations.surroundings import check_supervisor, is_permission, refused
from warrener_contracts.topology import dispatch_queue
from warrener_store.agents.rows import AgentRow

_RECENT, _TOGETHER = timedelta(hours=1), timedelta(seconds=5)
_LOST_AFTER = timedelta(seconds=30)
"""A dispatch whose queue is empty for this long is lost: it is on its way for milliseconds."""


# -- the queue ---------------------------------------------------------------------------------------------


def check_queue_exists(walk: Walk, queue: str, since: datetime | None) -> Explanation | None:
    """End the walk if the dispatch queue does not exist."""
    name, known, is_alone = (
        dispatch_queue(queue).name,
        walk.system.queues.get(queue),
        walk.system.no_supervisor,
    )
    if known is None:
        walk.unknown("queue", f"{name} could not be queried")
        return None
    if known.exists:
        return None
    who = "Start a supervisor, for none runs: it" if is_alone else "A supervisor"
    return walk.end(
        Cause.QUEUE_MISSING,
        f"Queue {name} does not exist: it was deleted, or never declared",
        suggest.run("warrener supervisor" if is_alone else "warrener topology --check"),
        since=since,
        next=f"{who} declares it and publishes its jobs again under the same attempt numbers",
    )


def check_binding(walk: Walk, queue: str, exchange: str, since: datetime | None) -> Explanation | None:
    """End the walk if messages of the exchange do not reach the queue."""
    known, name = walk.system.queues.get(queue) or facts.QueueFacts(), dispatch_queue(queue).name
    if known.unbound is None:
        if walk.system.bindings_unknown is not None:
            walk.unknown("binding", f"{exchange} → {name}: {walk.system.bindings_unknown}")
        return None
    if exchange not in known.unbound:
        walk.passed("binding", f"{exchange} → {name}")
        return None
    sentence = f"Queue {name} is not bound to {exchange}, from which its messages come"
    then = "An agent of the queue binds it when it starts, a supervisor when it publishes again"
    return _end_unserved(walk, queue, Cause.BINDING_MISSING, sentence, since=since, then=then)


def end_refusing(walk: Walk, queue: str, since: datetime | None, subject: str) -> Explanation:
    """End the walk: the queue exists and does not take messages."""
    sentence = f"Queue {queue} refuses messages: it is full or without a quorum"
    then = f"A supervisor publishes {subject} once the queue accepts messages"
    return _end_unserved(walk, queue, Cause.QUEUE_REFUSES, sentence, since=since, then=then)


def _end_unserved(
    walk: Walk, queue: str, cause: Cause, sentence: str, *, since: datetime | None = None, then: str = ""
) -> Explanation:
    return walk.end(cause, sentence, *suggest.another_agent(queue), since=since, next=then)


# -- the agents --------------------------------------------------------------------------------------------


def check_agents(
    walk: Walk, queue: str, job_type: str | None = None, *, since: datetime | None = None
) -> Explanation | None:
    """End the walk if no agent takes a message of this queue: none alive, able, free, or with the type."""
    at_broker = walk.system.queues.get(queue)
    consumers = at_broker.consumers if at_broker is not None and at_broker.exists else None
    if walk.system.no_supervisor:
        # No heartbeat is stored, and silence proves nothing: the broker alone is left to judge by.
        if consumers == 0:
            return check_supervisor(walk, "stores heartbeats and publishes what waits")
        walk.unknown("agents", "their heartbeats are not stored while no supervisor runs")
        return None
    working = [agent for agent in walk.system.alive_of(queue) if not agent.draining]
    if not working:
        return _nobody(walk, queue, consumers, job_type, since)
    able = [agent for agent in working if agent.trouble is None]
    if not able:
        return _in_trouble(walk, queue, working[0])
    if consumers == 0:
        sentence = f"Queue {queue} has no consumer: agent {able[0].agent_id} has just ended or been cut off"
        return _end_unserved(walk, queue, Cause.AGENT_GONE, sentence, since=able[0].last_seen_at)
    knowing = [agent for agent in able if job_type is None or facts.knows(agent, job_type)]
    return (
        _slots_full(walk, queue, knowing)
        if knowing
        else end_type_not_known(walk, queue, job_type or "", since)
    )


def _nobody(
    walk: Walk, queue: str, consumers: int | None, job_type: str | None, since: datetime | None
) -> Explanation | None:
    """End the walk if no agent of the queue sends heartbeats, or if all are draining."""
    if alive := walk.system.alive_of(queue):
        draining = f"All agents of queue {queue} are draining and take no further jobs: {facts.names(alive)}"
        return _end_unserved(walk, queue, Cause.AGENTS_DRAINING, draining)
    known = walk.system.agents_of(queue)
    if known and consumers:
        return _stalled(walk, queue, known[0])
    if consumers:
        walk.unknown("agents", f"queue {queue} has a consumer that has sent no heartbeat yet")
        return None
    if known:
        last = known[0]
        how = "has drained and ended" if last.draining else "fell silent"
        gone = f"No agent of queue {queue} is alive: the last one, {last.agent_id} on {last.host}, {how}"
        return _end_unserved(walk, queue, Cause.AGENT_GONE, gone, since=last.last_seen_at)
    sentence = f"No agent has ever served queue {queue}"
    declared = walk.system.job_types.get(job_type) if job_type else None
    if declared is None or queue in {declared.queue, *declared.policy.rule_queues}:
        return _end_unserved(walk, queue, Cause.NO_AGENT, sentence, since=since)
    sentence += f"; {job_type} belongs to queue {declared.queue}"
    then = f"Start an agent of queue {queue}; or cancel the job, and request it for {declared.queue}"
    return _end_unserved(walk, queue, Cause.WRONG_QUEUE, sentence, since=since, then=then)


def _stalled(walk: Walk, queue: str, last: AgentRow) -> Explanation:
    seen, show = last.last_seen_at, suggest.show_agent(last.agent_id)
    if _all_silent_together(walk.system):
        stalled, show = Cause.SUPERVISOR_STALLED, suggest.run("warrener supervisor")
        sentence = (
            "Agents are connected, but the supervisor stores no heartbeat: it is frozen, or its store slow"
        )
        then = "All goes on once it works again; another supervisor takes its work"
    else:
        stalled = Cause.AGENT_STALLED
        sentence = (
            f"Agent {last.agent_id} of queue {queue} is connected and sends no heartbeat: frozen or blocked"
        )
        then = "The broker closes its connection and gives its messages to another agent of the queue"
    return walk.end(stalled, sentence, show, since=seen, next=then)


def _in_trouble(walk: Walk, queue: str, agent: AgentRow) -> Explanation:
    trouble, show = agent.trouble or "", suggest.show_agent(agent.agent_id)
    if is_permission(trouble):
        return refused(walk, f"agent {agent.agent_id} of queue {queue}", trouble)
    sentence = f"No agent of queue {queue} can claim attempts, as {agent.agent_id} reports"
    then = "The agents have returned the messages, and consume again once their ledger answers"
    return walk.end(Cause.LEDGER_UNREACHABLE, sentence, show, detail=trouble, next=then)


def _all_silent_together(system: facts.SystemFacts) -> bool:
    """True if the supervisor that stores heartbeats is to blame: all agents fell silent at one moment, or
    events wait for it too."""
    seen = [agent.last_seen_at for agent in system.agents if not agent.draining]
    recent = [moment for moment in seen if system.now - moment < _RECENT]
    if not recent or not all(map(system.is_silent, system.agents)):
        return False
    together = len(recent) > 1 and max(recent) - min(recent) < _TOGETHER
    return together or system.statuses_waiting > 0


def end_type_not_known(
    walk: Walk, queue: str, job_type: str, since: datetime | None, until: datetime | None = None
) -> Explanation:
    """End the walk: the agents of the queue do not know the job type, as during a deployment."""
    here = [agent for agent in walk.system.alive_of(queue) if not agent.draining]
    serving = walk.system.serving(job_type)
    others = sorted({other for agent in serving for other in agent.queues} - {queue})
    is_listed = all(agent.job_types is not None for agent in serving)
    elsewhere = f"; agents of queue {', '.join(others)} do" if others and is_listed else ""
    whom = facts.names(here) if here else "the last one"
    return walk.end(
        Cause.TYPE_NOT_KNOWN,
        f"No agent of queue {queue} knows {job_type}: {whom} returns its jobs{elsewhere}",
        *suggest.another_agent(queue),
        since=since,
        until=until,
        next="An agent that knows the type takes the job; uncharged, it is tried again",
    )


def _slots_full(walk: Walk, queue: str, working: list[AgentRow]) -> Explanation | None:
    slots = sum(agent.slots for agent in working)
    many = f"{len(working)} agents" if len(working) > 1 else f"agent {working[0].agent_id}"
    if free := sum(facts.free_slots(agent, queue) for agent in working):
        walk.passed("agents", f"{many} of queue {queue}, {free} of {slots} slots free")
        return None
    which = f"All {slots} slots of {many} are" if slots > 1 else f"The one slot of {many} is"
    then = "The next job starts when one of them ends, or when another agent serves the queue"
    # Of an agent with one queue each slot has an attempt, but for those of attempts that are over.
    held = sum(max(0, agent.slots - agent.running) for agent in working if agent.queues == (queue,))
    if held:
        walk.note(
            f"{held} of the slots have no running attempt: a handler that could not be stopped holds one "
            "until it returns, or its agent is restarted"
        )
    sentence = f"{which} taken" + (f" by other jobs of queue {queue}" if held < slots else "")
    return _end_unserved(walk, queue, Cause.SLOTS_FULL, sentence, then=then)


def name_ending_jobs(
    found: Explanation, system: facts.SystemFacts, queues: tuple[str, ...], own: UUID | None
) -> Explanation:
    """Note other jobs than `own` that have ended agents of these queues: they may end the next agent too."""
    for row in (system.ending_jobs[queue] for queue in queues if queue in system.ending_jobs):
        if row.job_id != own:
            ended = f"has ended {facts.counted(facts.ended_agents(row), 'agent')} of queue {row.queue}"
            found = replace(
                found,
                notes=(*found.notes, f"job {row.job_id} ({row.job_type}) {ended}"),
                suggestions=(
                    *found.suggestions,
                    suggest.show_job(row.job_id),
                    suggest.cancel_job(row.job_id),
                ),
            )
    return found


# -- its turn ----------------------------------------------------------------------------------------------


def end_in_turn(walk: Walk, queue: str, attempt: int, since: datetime) -> Explanation:
    """End the walk: nothing stands in the way, so the message is in its queue, or was lost."""
    known, show = walk.system.queues.get(queue), suggest.show_queue(queue)
    waiting = known.waiting if known is not None and known.exists else None
    if waiting == 0:
        # Without a supervisor an agent may have taken the message: its events wait.
        found = check_supervisor(walk, "records what the agents report", since)
        if found is not None:
            return found
        if walk.now - since > _LOST_AFTER:
            lost = f"The message of attempt {attempt} is lost: queue {queue} is empty and its agents are free"
            then = "A supervisor compares queue and store, and publishes it again under the same number"
            return walk.end(Cause.DISPATCH_MISSING, lost, show, since=since, next=then)
    depth = f", which holds {facts.counted(waiting, 'message')}" if waiting else ""
    return walk.end(Cause.IN_QUEUE, f"Attempt {attempt} is in queue {queue}{depth}", show, since=since)
