"""Keep the shared topology declared, and raise an incident about each piece that may not be declared.

Publishers declare what a message of theirs did not find. Nobody misses a piece whose messages are dropped or
go elsewhere (log lines, dead letters, what leaves the delay queues), so supervisors declare everything again.
"""

import asyncio
from collections.abc import Iterator, Sequence

from warrener_contracts.topology import TOPOLOGY, Queue, Topology, dispatch_queue
from warrener_runtime.bus.port import Bus, TopologyMismatch
from warrener_runtime.logs import get_logger
from warrener_store.store import StateStore
from warrener_supervisor.escalation.incident_reporter import IncidentReporter

_log = get_logger("topology")

KEEP_INTERVAL = 20.0  # seconds
_PATIENCE = 60.0  # seconds for one turn: while a node of a cluster is frozen, declarations wait
_QUEUES_AT_ONCE = 50
KIND = "topology.refused"


class TopologyKeeper:
    """Declares all that services share, and dispatch queues in turns, in the background."""

    def __init__(
        self, bus: Bus, store: StateStore, reporter: IncidentReporter, own: Sequence[Queue] = ()
    ) -> None:
        """`own`: exclusive queues of this supervisor, whose bindings are made again too."""
        self._bus, self._store, self._reporter, self._own = bus, store, reporter, own
        self._next = 0
        self._refused: set[str] = set()

    async def run_once(self) -> None:
        """Declare what is missing. A piece that is refused is reported once, until it is declared."""
        queues = (*self._own, *map(dispatch_queue, await self._some_queues()))
        topology = TOPOLOGY.with_queues(queues)
        try:
            async with asyncio.timeout(_PATIENCE):
                refused = await self._declare(topology)
        except TimeoutError:
            return  # a later turn goes on
        for piece in refused.keys() - self._refused:
            _log.error(
                "A piece of the topology is missing or differs, and may not be declared.",
                action="topology.refused",
                piece=piece,
                error=refused[piece],
            )
            text = f"{refused[piece]}; `warrener topology --check` compares all pieces"
            await self._reporter.raise_incident(KIND, piece, f"{KIND}:{piece}", {"text": text})
        self._refused = set(refused)

    async def _declare(self, topology: Topology) -> dict[str, str]:
        """Declare everything; return the refused pieces with their errors."""
        try:
            await self._bus.declare(topology)
        except TopologyMismatch:
            return await self._declare_each(topology)
        return {}

    async def _declare_each(self, topology: Topology) -> dict[str, str]:
        refused: dict[str, str] = {}
        for name, piece in _pieces(topology):
            try:
                await self._bus.declare(piece)
            except TopologyMismatch as error:
                refused[name] = str(error)
        return refused

    async def _some_queues(self) -> list[str]:
        queues = sorted({row.queue for row in (await self._store.job_types()).values()})
        first = self._next if self._next < len(queues) else 0
        self._next = first + _QUEUES_AT_ONCE
        return queues[first : self._next]


def _pieces(topology: Topology) -> Iterator[tuple[str, Topology]]:
    for exchange in topology.exchanges:
        yield f"exchange {exchange.name}", Topology((exchange,), ())
    for queue in topology.queues:
        yield f"queue {queue.name}", Topology((), (queue,))
