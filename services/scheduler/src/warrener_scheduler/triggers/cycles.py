"""Schedules that would start each other for ever are refused. Pure.

What follows from a tick is known: its own telling, and what is told of its job. Whether a condition would
break the circle is not asked: it is decided by addresses alone, so that the answer is one to rely on.
"""

from collections.abc import Iterable, Iterator, Mapping

from warrener_contracts.events import SchedulePutData, TickStatus
from warrener_contracts.state_machine import TERMINAL
from warrener_contracts.topology import EVENTS
from warrener_contracts.triggers import AfterRule, EventRule
from warrener_runtime.bus.topics import matches


def find_cycle(spec: SchedulePutData, others: Iterable[SchedulePutData]) -> list[str]:
    """The names of schedules in the order in which each would start the next, from `spec` back to itself;
    empty where there is no such circle.

    A rule that hears of all events may hear of its own: these are passed over, and make no circle.
    """
    known = {one.name: one for one in others} | {spec.name: spec}
    came_from: dict[str, str] = {}
    left = [spec.name]
    while left:
        name = left.pop()
        for following in _started_schedules(known[name], known):
            if following == spec.name:
                return [*_path(came_from, spec.name, name), spec.name]
            if following not in came_from:
                came_from[following] = name
                left.append(following)
    return []


def _path(came_from: Mapping[str, str], first: str, last: str) -> list[str]:
    found = [last]
    while found[-1] != first:
        found.append(came_from[found[-1]])
    return found[::-1]


def _started_schedules(spec: SchedulePutData, known: Mapping[str, SchedulePutData]) -> Iterator[str]:
    for name, other in known.items():
        match other.rule:
            case AfterRule() as rule:
                if any(one.schedule == spec.name or one.job_type == spec.job_type for one in rule.upstreams):
                    yield name
            case EventRule() as rule if name != spec.name and rule.exchange == EVENTS:
                if any(matches(rule.key, key) for key in _published_keys(spec)):
                    yield name
            case _:
                pass


def _published_keys(spec: SchedulePutData) -> Iterator[str]:
    """The routing keys of all that is told of a tick and of its job."""
    yield from (f"schedule.ticked.{status}.{spec.name}" for status in TickStatus)
    yield from (f"job.finished.{state}.{spec.job_type}" for state in TERMINAL)
    yield from (f"job.{what}.{spec.job_type}" for what in ("retrying", "dead", "rejected"))
