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

LATE = timedelta(seconds=15)
"""A service that is later than this does not work as it should."""
_NEEDED = {
    *(f"queue {queue.name}" for queue in (REQUESTS_QUEUE, STATUS_QUEUE)),
    *(f"exchange {exchange}" for exchange in (DISPATCH, DELAY, EVENTS, STATUS)),
}
"""The pieces of the topology without which no job goes on."""


def note_troubles(walk: Walk, system: SystemFacts) -> None:
    """Note facts that no step is about: skewed clocks, refused pieces, bindings that were not compared."""
    for piece in system.refused.keys() - _NEEDED:
        walk.note(f"the broker refuses a service: {system.refused[piece]}")
    if abs(system.machine_ahead) > MAX_SKEW:
        which = "ahead of" if system.machine_ahead > timedelta(0) else "behind"
        walk.note(
            f"this machine's clock is {span(system.machine_ahead)} {which} the store's, which services use"
        )
    if system.bindings_unknown is not None:
        walk.note(f"bindings were not compared: {system.bindings_unknown}")


def check_store(walk: Walk, system: SystemFacts) -> Explanation | None:
    """End the walk if the store takes no writes: no service can go on."""
    if system.store_trouble is None:
        return None
    return walk.end(
        "store",
        Cause.STORE_NOT_WRITABLE,
        "The store takes no writes",
        DOCTOR,
        detail=system.store_trouble,
        next="Services go on by themselves once it can be written; nothing is lost meanwhile",
    )


def check_broker(walk: Walk, system: SystemFacts) -> Explanation | None:
    """End the walk if the broker does not answer, takes no messages, or refuses a service what jobs need."""
    if system.broker_alarm is not None:
        return walk.end(
            "broker",
            Cause.BROKER_BLOCKED,
            "The broker takes no messages",
            run("rabbitmq-diagnostics alarms"),
            detail=system.broker_alarm,
            next="Make room on its disk, or give it memory; all go on by themselves once its alarm has ended",
        )
    if system.broker_trouble is not None:
        return walk.end(
            "broker",
            Cause.BROKER_UNREACHABLE,
            "The broker does not answer",
            DOCTOR,
            detail=system.broker_trouble,
            next="Services reconnect by themselves once it answers",
        )
    needed = [text for piece, text in system.refused.items() if piece in _NEEDED and is_permission(text)]
    return refused(walk, "a service", needed[0]) if needed else None


def is_permission(trouble: str) -> bool:
    """True if the trouble of a service is a missing permission on the broker."""
    return "; run `rabbitmqctl " in trouble


def refused(walk: Walk, whom: str, trouble: str) -> Explanation:
    """End the walk: a permission is missing."""
    what, _, command = trouble.partition("; run ")
    return walk.end(
        "permissions",
        Cause.PERMISSION_REFUSED,
        f"The broker refuses {whom}",
        run(command.split("`")[1]),
        detail=what,
        next="It goes on by itself once its user has the permission",
    )


def check_scheduler(
    walk: Walk, system: SystemFacts, does: str, since: datetime | None = None
) -> Explanation | None:
    """End the walk if no scheduler runs; `does` says for which step it is needed."""
    if system.schedulers == 0:
        return walk.end(
            "scheduler",
            Cause.SCHEDULER_DOWN,
            f"No scheduler runs: queue {REQUESTS_QUEUE.name} has no consumer",
            run("warrener scheduler"),
            since=since,
            next=f"As soon as one runs, it {does}",
        )
    _note_service(walk, "scheduler", system.schedulers)
    return None


def check_supervisor(
    walk: Walk, system: SystemFacts, does: str, since: datetime | None = None
) -> Explanation | None:
    """End the walk if no supervisor runs; `does` says for which step it is needed."""
    if system.no_supervisor:
        many = counted(system.statuses_waiting, "event")
        waiting = f" and holds {many}" if system.statuses_waiting else ""
        return walk.end(
            "supervisor",
            Cause.SUPERVISOR_DOWN,
            f"No supervisor runs: queue {STATUS_QUEUE.name} has no consumer{waiting}",
            run("warrener supervisor"),
            since=since,
            next=f"As soon as one runs, it {does}",
        )
    _note_service(walk, "supervisor", system.supervisors)
    return None


def _note_service(walk: Walk, service: str, running: int | None) -> None:
    if running is None:
        walk.unknown(service, "the broker could not be queried")
    else:
        walk.passed(service, f"{running} running")
