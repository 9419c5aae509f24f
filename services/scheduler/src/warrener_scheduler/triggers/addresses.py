"""What must be bound for schedules that wait for events. Pure."""

from collections.abc import Collection, Mapping

from warrener_contracts.events import SchedulePutData
from warrener_contracts.topology import EVENTS, TRIGGERS_QUEUE, Binding, Queue
from warrener_contracts.triggers import AfterRule, EventRule, Upstream, UpstreamEnd
from warrener_scheduler.triggers.matching import states_of_end
from warrener_store.schedules.rows import Address


def required_addresses(spec: SchedulePutData, job_types: Mapping[str, str]) -> tuple[Address, ...]:
    """What brings the schedule what it waits for. `job_types`: those of schedules, by name; of a schedule
    that is not there, nothing can come."""
    match spec.rule:
        case EventRule() as rule:
            return ((rule.exchange, rule.key),)
        case AfterRule() as rule:
            found = (_after(upstream, job_types) for upstream in rule.upstreams)
            return tuple(dict.fromkeys(address for some in found for address in some))
        case _:
            return ()


def upstream_schedules(spec: SchedulePutData) -> set[str]:
    """The schedules whose jobs it waits for."""
    if not isinstance(spec.rule, AfterRule):
        return set()
    return {upstream.schedule for upstream in spec.rule.upstreams if upstream.schedule}


def triggers_queue_with(addresses: Collection[Address]) -> Queue:
    """The queue of triggers with these bindings."""
    bindings = tuple(Binding(exchange, key) for exchange, key in sorted(set(addresses)))
    return Queue(TRIGGERS_QUEUE.name, bindings, TRIGGERS_QUEUE.arguments)


def _after(upstream: Upstream, job_types: Mapping[str, str]) -> list[Address]:
    job_type = upstream.job_type or job_types.get(upstream.schedule or "")
    if job_type is None:
        return []
    ends = ["*"] if upstream.end is UpstreamEnd.FINISHED else states_of_end(upstream.end)
    return [(EVENTS, f"job.finished.{end}.{job_type}") for end in ends]
