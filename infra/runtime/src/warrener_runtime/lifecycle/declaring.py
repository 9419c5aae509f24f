"""Declarations that a broker or a setting may refuse: at its start a service waits for what is missing."""

from collections.abc import Awaitable, Callable, Iterator

from warrener_runtime.backoff import FailureStreak
from warrener_runtime.bus.port import Bus, DeclarationForbidden, TopologyMismatch
from warrener_runtime.bus.types import NamedTopology, TopologySpec
from warrener_runtime.clock import Clock
from warrener_runtime.health import NotReady, current_health_registry
from warrener_runtime.logs import get_logger

_log = get_logger("topology")
_INTERVAL = 5.0  # seconds


async def declare_when_permitted(name: str, declare: Callable[[], Awaitable[None]], clock: Clock) -> None:
    """Call `declare` until its user has the permission, or someone else has declared what is missing.
    Meanwhile the log and readiness name the piece."""
    streak, registry, refusals = FailureStreak(_log, part=name), current_health_registry.get(), list[str]()

    async def check() -> None:
        if refusals:
            raise NotReady(refusals[-1])

    if registry:
        registry.register(name, check)
    try:
        while True:
            try:
                await declare()
            except DeclarationForbidden as error:
                refusals.append(str(error))
                text = "A piece of the topology is missing and may not be declared; the start waits for it."
                streak.failed(error, text, clock.monotonic(), action="topology.forbidden")
                await clock.sleep(_INTERVAL)
            else:
                text = "Nothing of the topology is missing any more; the start goes on."
                return streak.recovered(text, clock.monotonic(), action="topology.permitted")
    finally:
        if registry:
            registry.unregister(name)


async def declare_pieces(bus: Bus, topology: TopologySpec, *, verify: bool = False) -> dict[str, str]:
    """Declare everything, piece by piece if one is refused; return the refused ones with their errors."""
    try:
        await bus.declare(topology, verify=verify)
    except TopologyMismatch:
        pass
    else:
        return {}
    refused: dict[str, str] = {}
    for name, piece in _pieces(topology):
        try:
            await bus.declare(piece, verify=verify)
        except TopologyMismatch as error:
            refused[name] = str(error)
    return refused


def _pieces(topology: TopologySpec) -> Iterator[tuple[str, TopologySpec]]:
    for exchange in topology.exchanges:
        yield f"exchange {exchange.name}", NamedTopology((exchange,), ())
    for queue in topology.queues:
        yield f"queue {queue.name}", NamedTopology((), (queue,))
