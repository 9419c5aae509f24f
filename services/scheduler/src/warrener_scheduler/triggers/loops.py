"""Schedules that would start each other for ever are refused. Pure.

What follows from a tick is known: its own telling, and what is told of its job. Whether a condition would
break the circle is not asked: it is decided by addresses alone, so that the answer is one to rely on.
"""

from collections.abc import Iterable, Iterator, Mapping

from warrener_contracts.events import SchedulePutData, TickStatus
from warrener_contracts.states import TERMINAL
from warrener_contracts.topology import EVENTS
from warrener_contracts.triggers import AfterRule, EventRule
from warrener_runtime.bus.topics import matches


def loop_of(asked: SchedulePutData, others: Iterable[SchedulePutData]) -> list[str]:
    """The names of schedules in the order in which each would start the next, from `asked` back to itself;
    empty where there is no such circle.

    A rule that hears of all events may hear of its own: these are passed over, and make no circle.
    """
    known = {one.name: one for one in others} | {asked.name: asked}
    came_from: dict[str, str] = {}
    left = [asked.name]
    while left:
        name = left.pop()
        for following in _started_by(known[name], known):
            if following == asked.name:
                return [*_way(came_from, asked.name, name), asked.name]
            if following not in came_from:
                came_from[following] = name
                left.append(following)
    return []


def _way(came_from: Mapping[str, str], first: str, last: str) -> list[str]:
    found = [last]
    while found[-1] != first:
        found.append(came_from[found[-1]])
    return found[::-1]


def _started_by(asked: SchedulePutData, known: Mapping[str, SchedulePutData]) -> Iterator[str]:
    for name, other in known.items():
        match other.rule:
            case AfterRule() as rule:
                if any(
                    one.schedule == asked.name or one.job_type == asked.job_type for one in rule.upstreams
                ):
                    yield name
            case EventRule() as rule if name != asked.name and rule.exchange == EVENTS:
                if any(matches(rule.key, key) for key in _told_of(asked)):
                    yield name
            case _:
                pass


def _told_of(asked: SchedulePutData) -> Iterator[str]:
    """The routing keys of all that is told of a tick and of its job."""
    yield from (f"schedule.ticked.{fate}.{asked.name}" for fate in TickStatus)
    yield from (f"job.finished.{state}.{asked.job_type}" for state in TERMINAL)
    yield from (f"job.{what}.{asked.job_type}" for what in ("retrying", "dead", "rejected"))
