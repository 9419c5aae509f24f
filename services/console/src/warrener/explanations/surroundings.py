"""The system around a subject: clocks, the store, the broker and the services. Pure.

Each function adds its steps to the walk, and returns the explanation if the walk ends there.
"""

from datetime import datetime, timedelta

from warrener.explanations.causes import Cause
from warrener.explanations.explanation import Explanation, Walk
from warrener.explanations.facts import MAX_SKEW, SystemFacts, counted
from warrener.explanations.suggestions import DOCTOR, run
from warrener.render.times import span
from warrener_contracts.topology import DELAY, DISPATCH, EVENTS, REQUESTS_QUEUE, STATUS, STATUS_QUEUE

LATE = timedelta(seconds=15)  # a service that is later than this does not work as it should
_NEEDED = {
    *(f"queue {queue.name}" for queue in (REQUESTS_QUEUE, STATUS_QUEUE)),
    *(f"exchange {exchange}" for exchange in (DISPATCH, DELAY, EVENTS, STATUS)),
}
"""The pieces of the topology without which no job goes on."""


def begin_walk(system: SystemFacts, subject: str, state: str, since: datetime | None) -> Walk:
    """Note facts that no step is about: skewed clocks, refused pieces, bindings that were not compared."""
    walk = Walk(system, subject, state, since)
    for piece in system.refused.keys() - _NEEDED:
        walk.note(f"the broker refuses a service: {system.refused[piece]}")
    if abs(ahead := system.machine_ahead) > MAX_SKEW:
        which = "ahead of" if ahead > timedelta(0) else "behind"
        walk.note(f"this machine's clock is {span(ahead)} {which} the store's, which services use")
    if system.bindings_unknown is not None:
        walk.note(f"bindings were not compared: {system.bindings_unknown}")
    return walk


def check_store(walk: Walk) -> Explanation | None:
    """End the walk if the store takes no writes: no service can go on."""
    if (trouble := walk.system.store_trouble) is None:
        return None
    then = "Services go on by themselves once it can be written; nothing is lost meanwhile"
    return walk.end(Cause.STORE_NOT_WRITABLE, "The store takes no writes", DOCTOR, detail=trouble, next=then)


def check_broker(walk: Walk) -> Explanation | None:
    """End the walk if the broker does not answer, takes no messages, or refuses a service what jobs need."""
    if (alarm := walk.system.broker_alarm) is not None:
        look, sentence = run("rabbitmq-diagnostics alarms"), "The broker takes no messages"
        then = "Make room on its disk, or give it memory; all go on by themselves once its alarm has ended"
        return walk.end(Cause.BROKER_BLOCKED, sentence, look, detail=alarm, next=then)
    if (trouble := walk.system.broker_trouble) is not None:
        sentence, then = "The broker does not answer", "Services reconnect by themselves once it answers"
        return walk.end(Cause.BROKER_UNREACHABLE, sentence, DOCTOR, detail=trouble, next=then)
    pieces = walk.system.refused.items()
    needed = [text for piece, text in pieces if piece in _NEEDED and is_permission(text)]
    return refused(walk, "a service", needed[0]) if needed else None


def is_permission(trouble: str) -> bool:
    """True if the trouble of a service is a missing permission on the broker."""
    return "; run `rabbitmqctl " in trouble


def refused(walk: Walk, whom: str, trouble: str) -> Explanation:
    """End the walk: a permission is missing."""
    what, _, command = trouble.partition("; run ")
    remedy, then = run(command.split("`")[1]), "It goes on by itself once its user has the permission"
    return walk.end(Cause.PERMISSION_REFUSED, f"The broker refuses {whom}", remedy, detail=what, next=then)


def check_scheduler(walk: Walk, does: str, since: datetime | None = None) -> Explanation | None:
    """End the walk if no scheduler runs; `does` says for which step it is needed."""
    none = f"No scheduler runs: queue {REQUESTS_QUEUE.name} has no consumer"
    return _check_service(walk, "scheduler", walk.system.schedulers, none, does, since=since)


def check_supervisor(walk: Walk, does: str, since: datetime | None = None) -> Explanation | None:
    """End the walk if no supervisor runs; `does` says for which step it is needed."""
    many = walk.system.statuses_waiting
    holds = f" and holds {counted(many, 'event')}" if many else ""
    none = f"No supervisor runs: queue {STATUS_QUEUE.name} has no consumer{holds}"
    return _check_service(walk, "supervisor", walk.system.supervisors, none, does, since=since)


def _check_service(
    walk: Walk, service: str, running: int | None, none: str, does: str, *, since: datetime | None
) -> Explanation | None:
    down = Cause.SCHEDULER_DOWN if service == "scheduler" else Cause.SUPERVISOR_DOWN
    if running == 0:
        then = f"As soon as one runs, it {does}"
        return walk.end(down, none, run(f"warrener {service}"), since=since, next=then)
    if running is None:
        walk.unknown(down.step, "the broker could not be queried")
    else:
        walk.passed(down.step, f"{running} running")
    return None
