"""Why a queue is not emptied, an agent takes nothing, or a job type is not run. Pure."""

from warrener.explanations import delivery, facts
from warrener.explanations import surroundings as around
from warrener.explanations.causes import Cause
from warrener.explanations.explanation import Explanation, Walk
from warrener.explanations.jobs import end_held
from warrener.explanations.suggestions import DOCTOR, another_agent, show_queue
from warrener.render.times import ago, span
from warrener_contracts.topology import DISPATCH, RETURN
from warrener_store.agents.rows import AgentRow


def explain_operation(
    subject: facts.QueueSubject | facts.AgentSubject | facts.TypeSubject,
) -> tuple[Explanation, tuple[str, ...]]:
    """Explain a queue, an agent or a job type, and name its queues."""
    match subject:
        case facts.QueueSubject():
            return _explain_queue(subject), (subject.name,)
        case facts.AgentSubject():
            return _explain_agent(subject), subject.row.queues
        case facts.TypeSubject():
            return _explain_type(subject), (subject.row.queue,)


def _explain_queue(subject: facts.QueueSubject) -> Explanation:
    """Explain a dispatch queue: the first thing that keeps agents from its jobs."""
    queue, known = subject.name, subject.system.queues.get(subject.name)
    state = "not queried" if known is None else "does not exist"
    if known is not None and known.exists:
        consumers = facts.counted(known.consumers, "consumer")
        state = f"{facts.counted(known.waiting, 'message')} waiting, {consumers}"
    walk = around.begin_walk(subject.system, f"queue {queue}", state, subject.oldest)
    since = subject.refusing_since or subject.oldest
    is_refusing = subject.refusing_since is not None and subject.unpublished
    pause = walk.system.breakers.find_pause(queue)
    if found := (
        around.check_store(walk)
        or (end_held(walk, pause, "its jobs") if pause is not None else None)
        or around.check_broker(walk)
        or delivery.check_queue_exists(walk, queue, since)
        or delivery.check_binding(walk, queue, DISPATCH, since)
        or delivery.check_binding(walk, queue, RETURN, since)
        or around.check_supervisor(walk, "stores heartbeats and publishes what waits")
        or (delivery.end_refusing(walk, queue, since, "its jobs") if is_refusing else None)
    ):
        return found
    for job_type in subject.waiting_types or (None,):
        if found := delivery.check_agents(walk, queue, job_type, since=since):
            return found
    return walk.end(Cause.QUEUE_WORKS, "Its agents have free slots", since=subject.oldest)


# -- agents ------------------------------------------------------------------------------------------------


def _explain_agent(subject: facts.AgentSubject) -> Explanation:
    """Explain an agent: ended, silent, draining, full, or at work."""
    system, row, seen = subject.system, subject.row, subject.row.last_seen_at
    is_silent = system.is_silent(row)
    as_drained, otherwise = ("ended", "silent") if is_silent else ("draining", "alive")
    state = as_drained if row.draining else otherwise
    walk = around.begin_walk(system, f"agent {row.agent_id}", state, seen)
    if (found := around.check_broker(walk)) is not None:
        return found
    if is_silent:
        return _silent(walk, row)
    if facts.consumes_nothing(system, row):
        gone = "The agent consumes no queue any longer: it has just ended or been cut off"
        then = "Its attempts go to other agents once it has been silent for some seconds"
        offered = another_agent(row.queues[0])
        return walk.end(Cause.AGENT_GONE, gone, *offered, at="consumers", since=seen, next=then)
    walk.passed("heartbeats", f"seen {ago(seen, walk.now)}")
    return _at_work(walk, row)


def _at_work(walk: Walk, row: AgentRow) -> Explanation:
    if row.draining:
        draining = f"it takes no further jobs, with {facts.counted(row.running, 'attempt')} to end"
        return walk.end(
            Cause.AGENTS_DRAINING,
            f"The agent is draining: {draining}",
            *another_agent(row.queues[0] if row.queues else "default"),
            at="drain",
            next="It ends after its last attempt, or releases what still runs at its shutdown timeout",
        )
    if row.trouble is not None and around.is_permission(row.trouble):
        return around.refused(walk, "the agent", row.trouble)
    if row.trouble is not None:
        sentence, trouble = "The agent cannot claim attempts", row.trouble
        then = "It has returned its messages, and consumes again once its ledger answers"
        return walk.end(Cause.LEDGER_UNREACHABLE, sentence, DOCTOR, detail=trouble, next=then)
    queues = ", ".join(row.queues)
    if full := [queue for queue in row.queues if not facts.free_slots(row, queue)]:
        sentence = f"All {row.slots} slots of the agent for queue {', '.join(full)} are taken"
        then = "It takes the next job when an attempt ends"
        return walk.end(Cause.SLOTS_FULL, sentence, *another_agent(full[0]), next=then)
    types = "" if row.job_types is None else f" of {facts.counted(len(row.job_types), 'job type')}"
    running = facts.counted(row.running, "attempt") if row.running else "nothing"
    sentence = f"The agent runs {running}, and has free slots for jobs{types} in queue {queues}"
    return walk.end(Cause.AGENT_WORKS, sentence, *map(show_queue, row.queues), since=row.started_at)


def _silent(walk: Walk, row: AgentRow) -> Explanation:
    system, seen = walk.system, row.last_seen_at
    if system.no_supervisor and (found := around.check_supervisor(walk, "stores heartbeats", seen)):
        return found
    if row.draining:
        ended = "The agent has drained and ended"
        return walk.end(Cause.AGENT_ENDED, ended, *map(show_queue, row.queues), since=seen)
    consumed = [queue for queue in row.queues if (known := system.queues.get(queue)) and known.consumers]
    others = [agent for queue in row.queues for agent in system.alive_of(queue)]
    if consumed and not others:
        sentence = "The agent is connected and sends no heartbeat: it is frozen, blocked or cut off"
        then = "A supervisor has given its attempts to others; the broker closes its connection"
        return walk.end(Cause.AGENT_STALLED, sentence, DOCTOR, at="heartbeats", since=seen, next=then)
    then = "Its attempts wait: no other agent serves its queues"
    if others:
        then = f"Its attempts went to other agents; its queues are served by {facts.names(others)}"
    return walk.end(
        Cause.AGENT_GONE,
        f"The agent fell silent without a goodbye, {span(seen - row.started_at)} after its start",
        *another_agent(row.queues[0] if row.queues else "default"),
        at="heartbeats",
        since=seen,
        next=then,
    )


# -- job types ---------------------------------------------------------------------------------------------


def _explain_type(subject: facts.TypeSubject) -> Explanation:
    """Explain a job type: held by a breaker, without an agent, or served."""
    row, since = subject.row, subject.row.announced_at
    walk = around.begin_walk(subject.system, f"job type {row.name}", f"queue {row.queue}", since)
    walk.passed("announcement", f"by {row.announced_by}, {ago(since, walk.now)}")
    for queue in () if walk.system.no_supervisor else sorted(row.policy.rule_queues):
        if not walk.system.alive_of(queue):
            walk.note(f"a retry rule sends attempts to queue {queue}, which no agent serves")
    blocking = walk.system.breakers.find_blocking(row.name, row.policy, row.queue)
    served = f"Agents of queue {row.queue} know the job type and have free slots"
    return (
        (end_held(walk, blocking, "its jobs") if blocking is not None else None)
        or around.check_broker(walk)
        or delivery.check_queue_exists(walk, row.queue, since)
        or delivery.check_agents(walk, row.queue, row.name, since=since)
        or walk.end(Cause.TYPE_SERVED, served, show_queue(row.queue), since=since)
    )
