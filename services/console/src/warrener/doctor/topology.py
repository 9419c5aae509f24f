"""Differences between the broker's exchanges, queues and bindings and those of this version."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self

from warrener.doctor import CheckStatus
from warrener.doctor.inspector import BrokerInspector
from warrener.doctor.management_api import BindingsUnavailable, ManagementApi, QueueBindings, bindings
from warrener_contracts.topology import (
    RETIRED_QUEUES,
    TOPOLOGY,
    TRIGGERS_QUEUE,
    Binding,
    Queue,
    Topology,
    dispatch_queue,
)
from warrener_runtime.bus.namespace import NameMapper

_DECLARE = "run `warrener topology --declare`"
_RECREATE = "RabbitMQ cannot change it: empty the queue, delete it, then run `warrener topology --declare`"
_DELETE = "delete it once no service of an earlier version runs"
_UNBIND = "unbind it (in the management page, for instance), unless it is intended"

_DISPATCH_QUEUES = dispatch_queue("").name
"""Prefix of the queues that job types name; only the broker knows which exist."""


@dataclass(frozen=True, slots=True)
class TopologyDifference:
    """One difference, and what to do about it."""

    what: str
    how: str
    missing: bool = False
    status: CheckStatus = CheckStatus.ERROR
    do: str | None = None

    @classmethod
    def warning(cls, what: str, how: str, do: str) -> Self:
        """Make a difference that is no fault by itself."""
        return cls(what, how, status=CheckStatus.WARNING, do=do)


@dataclass(frozen=True, slots=True)
class TopologyDiff:
    """All differences. `not_compared`: why the existing bindings could not be compared."""

    differences: tuple[TopologyDifference, ...] = ()
    bindings: tuple[TopologyDifference, ...] = ()
    replicas: tuple[TopologyDifference, ...] = ()
    compared: bool = False
    not_compared: BindingsUnavailable | None = None

    @property
    def all(self) -> list[TopologyDifference]:
        """All in one list; bindings that were not compared are a warning in it."""
        found = [*self.differences, *self.bindings, *self.replicas]
        if (reason := self.not_compared) is not None:
            how = f"were not compared: {reason.why}"
            found.append(TopologyDifference.warning("bindings", how, reason.do))
        return found


async def compare_topology(inspector: BrokerInspector, management: ManagementApi) -> TopologyDiff:
    """Compare the broker with the topology of this version, and change nothing."""
    found = await differences(inspector) + await find_retired_queues(inspector)
    absent = {each.what for each in found if each.missing}
    queues = [queue for queue in TOPOLOGY.queues if f"queue {queue.name}" not in absent]
    names = inspector.names
    if not queues:
        return TopologyDiff(_with_broker_names(found, names))  # nothing that could be bound
    try:
        seen = check_same_broker(management, queues, ours(await bindings(management), names))
    except BindingsUnavailable as reason:
        return TopologyDiff(_with_broker_names(found, names), not_compared=reason)
    dispatch = dispatch_queues(seen)
    found += await differences(inspector, Topology((), dispatch))
    exchanges = {each.name for each in TOPOLOGY.exchanges if f"exchange {each.name}" not in absent}
    unlike = compare_bindings((*queues, *dispatch), exchanges, seen)
    return TopologyDiff(_with_broker_names(found, names), _with_broker_names(unlike, names), compared=True)


def _with_broker_names(
    found: Iterable[TopologyDifference], names: NameMapper
) -> tuple[TopologyDifference, ...]:
    """Replace the code's names by those on the broker."""
    return tuple(
        replace(each, what=" ".join(names.to_broker(word) for word in each.what.split(" "))) for each in found
    )


async def differences(inspector: BrokerInspector, wanted: Topology = TOPOLOGY) -> list[TopologyDifference]:
    """Find every exchange and queue that is missing or differs.

    The inspector declares only what exists: the broker accepts an equal declaration and refuses another.
    """
    found: list[TopologyDifference] = []
    for exchange in wanted.exchanges:
        if not await inspector.exchange_exists(exchange.name):
            found.append(_missing(f"exchange {exchange.name}"))
        elif other := await inspector.exchange_differs(exchange):
            found.append(TopologyDifference(f"exchange {exchange.name}", other, do=_RECREATE))
    for queue in wanted.queues:
        if await inspector.queue(queue.name) is None:
            found.append(_missing(f"queue {queue.name}"))
        elif other := await inspector.queue_differs(queue):
            found.append(TopologyDifference(f"queue {queue.name}", other, do=_RECREATE))
    return found


def ours(seen: QueueBindings, names: NameMapper) -> QueueBindings:
    """The queues of the namespace, by the code's names. Pure."""
    return {
        names.from_broker(queue): frozenset(
            Binding(names.from_broker(bound.exchange), bound.key) for bound in bindings_of_it
        )
        for queue, bindings_of_it in seen.items()
        if names.is_ours(queue)
    }


async def find_retired_queues(inspector: BrokerInspector) -> list[TopologyDifference]:
    """Find unused queues of earlier versions."""
    return [
        TopologyDifference.warning(f"queue {name}", "is of an earlier version", _DELETE)
        for name in RETIRED_QUEUES
        if await inspector.queue(name) is not None
    ]


def check_same_broker(
    management: ManagementApi, queues: Iterable[Queue], seen: QueueBindings
) -> QueueBindings:
    """Return `seen`; raise BindingsUnavailable if it has none of the queues that exist. Pure."""
    if any(queue.name in seen for queue in queues):
        return seen
    raise BindingsUnavailable(
        f"{management.url} knows none of the queues that are here: it is that of another broker",
        "correct --management or WARRENER_MANAGEMENT_URL",
    )


def dispatch_queues(seen: QueueBindings) -> tuple[Queue, ...]:
    """The queues of job types that exist. Pure."""
    names = sorted(name for name in seen if name.startswith(_DISPATCH_QUEUES))
    return tuple(dispatch_queue(name.removeprefix(_DISPATCH_QUEUES)) for name in names)


def compare_bindings(
    queues: Iterable[Queue], exchanges: set[str], seen: QueueBindings
) -> list[TopologyDifference]:
    """Find missing bindings, and foreign ones of our queues, which bring them other messages. Pure.

    `exchanges` are those that exist: a binding of a missing exchange is not reported again.
    """
    found: list[TopologyDifference] = []
    for queue in queues:
        there = {bound for bound in seen.get(queue.name, frozenset()) if bound.exchange}
        ours = [bound for bound in queue.bindings if bound.exchange in exchanges]
        found += [_missing_binding(queue, bound) for bound in ours if bound not in there]
        if queue.name == TRIGGERS_QUEUE.name:
            continue  # the scheduler binds the events that schedules wait for
        foreign = sorted(there - set(queue.bindings), key=lambda bound: (bound.exchange, bound.key))
        found += [
            TopologyDifference.warning(_binding(queue, bound), "is none of ours", _UNBIND)
            for bound in foreign
        ]
    return found


def _missing_binding(queue: Queue, bound: Binding) -> TopologyDifference:
    by_agents = queue.name.startswith(_DISPATCH_QUEUES)
    again = f"start an agent of {queue.name.removeprefix(_DISPATCH_QUEUES)!r} again: it binds its queue"
    return _missing(_binding(queue, bound), again if by_agents else _DECLARE)


def _binding(queue: Queue, bound: Binding) -> str:
    return f"binding {bound.exchange} {bound.key} → {queue.name}"


def _missing(what: str, do: str = _DECLARE) -> TopologyDifference:
    return TopologyDifference(what, "is missing", missing=True, do=do)
