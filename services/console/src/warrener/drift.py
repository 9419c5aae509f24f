"""How the broker's exchanges and queues differ from those of this version."""

from dataclasses import dataclass

from warrener.probe import Probe
from warrener_contracts.topology import TOPOLOGY, Topology


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not as it should be."""

    what: str
    how: str
    missing: bool


async def differences(probe: Probe, wanted: Topology = TOPOLOGY) -> list[Difference]:
    """Everything that is missing or other. Makes and changes nothing: what exists is declared as it should
    be, which the broker grants where it is the same and refuses where it is not."""
    found: list[Difference] = []
    for exchange in wanted.exchanges:
        if not await probe.exchange_exists(exchange.name):
            found.append(Difference(f"exchange {exchange.name}", "is missing", missing=True))
        elif other := await probe.exchange_differs(exchange):
            found.append(Difference(f"exchange {exchange.name}", other, missing=False))
    for queue in wanted.queues:
        if await probe.queue(queue.name) is None:
            found.append(Difference(f"queue {queue.name}", "is missing", missing=True))
        elif other := await probe.queue_differs(queue):
            found.append(Difference(f"queue {queue.name}", other, missing=False))
    return found
