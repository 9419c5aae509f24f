"""How the broker's exchanges, queues and bindings differ from those of this version."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from warrener.broker_inspector import BrokerInspector
from warrener.doctor.check_result import CheckStatus
from warrener.management_api import BindingsUnavailable, ManagementApi, QueueBindings, bindings
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
_RECREATE = (
    "what exists cannot be changed: empty the queue, delete it, then run `warrener topology --declare`"
)
_DELETE = "delete it once no service of an earlier version runs"
_UNBIND = "unbind it (in the management page, say), unless somebody means it"

_DISPATCH_QUEUES = dispatch_queue("").name
"""What the names of queues begin with that job types have named: only the broker knows which there are."""


@dataclass(frozen=True, slots=True)
class TopologyDifference:
    """One thing that is not as it should be, and what to do. Where it is odd it need not be wrong."""

    what: str
    how: str
    missing: bool
    health: CheckStatus = CheckStatus.FAILED
    do: str | None = None


@dataclass(frozen=True, slots=True)
class TopologyDiff:
    """Everything that differs, and whether the bindings were compared. Where they were not: why, if there
    was anything to compare."""

    differences: tuple[TopologyDifference, ...] = ()
    bindings: tuple[TopologyDifference, ...] = ()
    compared: bool = False
    not_compared: BindingsUnavailable | None = None

    @property
    def all(self) -> list[TopologyDifference]:
        """In one list; that the bindings were not compared is an odd thing like others."""
        found = [*self.differences, *self.bindings]
        if (reason := self.not_compared) is not None:
            how = f"were not compared: {reason.why}"
            found.append(
                TopologyDifference("bindings", how, missing=False, health=CheckStatus.WARNING, do=reason.do)
            )
        return found


async def compare_topology(inspector: BrokerInspector, management: ManagementApi) -> TopologyDiff:
    """What is missing or other. Makes and changes nothing."""
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
    """The same, by the names on the broker."""
    return tuple(
        replace(each, what=" ".join(names.to_broker(word) for word in each.what.split(" "))) for each in found
    )


async def differences(inspector: BrokerInspector, wanted: Topology = TOPOLOGY) -> list[TopologyDifference]:
    """Every exchange and queue that is missing or other: what exists is declared as it should be, which the
    broker grants where it is the same and refuses where it is not."""
    found: list[TopologyDifference] = []
    for exchange in wanted.exchanges:
        if not await inspector.exchange_exists(exchange.name):
            found.append(_missing(f"exchange {exchange.name}"))
        elif other := await inspector.exchange_differs(exchange):
            found.append(TopologyDifference(f"exchange {exchange.name}", other, missing=False, do=_RECREATE))
    for queue in wanted.queues:
        if await inspector.queue(queue.name) is None:
            found.append(_missing(f"queue {queue.name}"))
        elif other := await inspector.queue_differs(queue):
            found.append(TopologyDifference(f"queue {queue.name}", other, missing=False, do=_RECREATE))
    return found


def ours(seen: QueueBindings, names: NameMapper) -> QueueBindings:
    """The queues of the namespace, by the names that code knows. Pure."""
    return {
        names.from_broker(queue): frozenset(
            Binding(names.from_broker(bound.exchange), bound.key) for bound in bindings_of_it
        )
        for queue, bindings_of_it in seen.items()
        if names.is_ours(queue)
    }


async def find_retired_queues(inspector: BrokerInspector) -> list[TopologyDifference]:
    """Queues of earlier versions that nobody uses."""
    return [
        TopologyDifference(
            f"queue {name}", "is of an earlier version", missing=False, health=CheckStatus.WARNING, do=_DELETE
        )
        for name in RETIRED_QUEUES
        if await inspector.queue(name) is not None
    ]


def check_same_broker(
    management: ManagementApi, queues: Iterable[Queue], seen: QueueBindings
) -> QueueBindings:
    """What was seen. Raises NotCompared if it cannot be of the broker on which the queues are. Pure."""
    if any(queue.name in seen for queue in queues):
        return seen
    raise BindingsUnavailable(
        f"{management.url} knows none of the queues that are here: it is that of another broker",
        "correct --management or WARRENER_MANAGEMENT_URL",
    )


def dispatch_queues(seen: QueueBindings) -> tuple[Queue, ...]:
    """The queues of job types that are on the broker. Pure."""
    names = sorted(name for name in seen if name.startswith(_DISPATCH_QUEUES))
    return tuple(dispatch_queue(name.removeprefix(_DISPATCH_QUEUES)) for name in names)


def compare_bindings(
    queues: Iterable[Queue], exchanges: set[str], seen: QueueBindings
) -> list[TopologyDifference]:
    """Bindings of ours that are missing, and others that our queues have: what those bring was not meant for
    them. A binding of an exchange that is missing itself is not told again. Pure."""
    found: list[TopologyDifference] = []
    for queue in queues:
        there = {bound for bound in seen.get(queue.name, frozenset()) if bound.exchange}
        ours = [bound for bound in queue.bindings if bound.exchange in exchanges]
        found += [_missing_binding(queue, bound) for bound in ours if bound not in there]
        if queue.name == TRIGGERS_QUEUE.name:
            continue  # what schedules wait for; the scheduler looks after these
        strange = sorted(there - set(queue.bindings), key=lambda bound: (bound.exchange, bound.key))
        found += [
            TopologyDifference(
                _binding(queue, bound),
                "is none of ours",
                missing=False,
                health=CheckStatus.WARNING,
                do=_UNBIND,
            )
            for bound in strange
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
