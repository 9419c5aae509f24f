"""Decide what is bound for schedules that wait for events, and which would start themselves. Pure.

The events that follow from a tick are known: its own, and those of its job. A cycle is found by addresses
alone, without the conditions of rules, so that the answer is reliable.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

from warrener_contracts.events import SchedulePutData, TickStatus
from warrener_contracts.state_machine import TERMINAL
from warrener_contracts.topology import EVENTS, PUBLIC_EVENTS, TRIGGERS_QUEUE, Binding, Queue
from warrener_contracts.triggers import AfterRule, EventRule, Upstream, UpstreamEnd
from warrener_runtime.bus.types import matches
from warrener_scheduler.decisions.triggers import states_of_end
from warrener_store.schedules.rows import Address


def required_addresses(spec: SchedulePutData, job_types: Mapping[str, str]) -> tuple[Address, ...]:
    """Return the addresses of the events that the schedule waits for.

    `job_types`: those of schedules, by name; a schedule that does not exist publishes nothing.
    """
    match spec.rule:
        case EventRule() as rule:
            return ((rule.exchange, rule.key),)
        case AfterRule() as rule:
            found = (_after(upstream, job_types) for upstream in rule.upstreams)
            return tuple(dict.fromkeys(address for some in found for address in some))
        case _:
            return ()


def upstream_schedules(spec: SchedulePutData) -> set[str]:
    """Return the schedules whose jobs it waits for."""
    if not isinstance(spec.rule, AfterRule):
        return set()
    return {upstream.schedule for upstream in spec.rule.upstreams if upstream.schedule}


def is_allowed(address: Address, allowed: Mapping[str, Collection[str]]) -> bool:
    """True if schedules may receive each message of the address: by the topic patterns of its exchange in
    `allowed`, or by PUBLIC_EVENTS."""
    exchange, key = address
    patterns = [*allowed.get(exchange, ()), *(PUBLIC_EVENTS if exchange == EVENTS else ())]
    return any(_covers(pattern.split("."), key.split(".")) for pattern in patterns)


def _covers(pattern: list[str], key: list[str]) -> bool:
    """True if the pattern matches each routing key that the binding `key` matches."""
    if not pattern:
        return not key
    head, rest = pattern[0], pattern[1:]
    if head == "#":
        return any(_covers(rest, key[skipped:]) for skipped in range(len(key) + 1))
    return bool(key) and key[0] != "#" and head in {"*", key[0]} and _covers(rest, key[1:])


def triggers_queue_with(addresses: Collection[Address]) -> Queue:
    """Return the triggers queue with these bindings."""
    bindings = tuple(Binding(exchange, key) for exchange, key in sorted(set(addresses)))
    return Queue(TRIGGERS_QUEUE.name, bindings, TRIGGERS_QUEUE.arguments)


def find_cycle(spec: SchedulePutData, others: Iterable[SchedulePutData]) -> list[str]:
    """Return the schedules that would start each other, from `spec` back to itself; empty without a cycle.

    A rule that receives all events may receive its own: these are ignored, and make no cycle.
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


def _after(upstream: Upstream, job_types: Mapping[str, str]) -> list[Address]:
    job_type = upstream.job_type or job_types.get(upstream.schedule or "")
    if job_type is None:
        return []
    ends = ["*"] if upstream.end is UpstreamEnd.FINISHED else states_of_end(upstream.end)
    return [(EVENTS, f"job.finished.{end}.{job_type}") for end in ends]


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
    """Yield the routing keys of all events about a tick and its job."""
    yield from (f"schedule.ticked.{status}.{spec.name}" for status in TickStatus)
    yield from (f"job.finished.{state}.{spec.job_type}" for state in TERMINAL)
    yield from (f"job.{what}.{spec.job_type}" for what in ("retrying", "dead", "rejected"))
