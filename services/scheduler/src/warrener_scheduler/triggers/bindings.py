"""binding: the bindings of the triggers queue are kept in step with the schedules.

Noted → bound → schedules kept; schedules removed → unbound → forgotten. The notes in the store are ahead of
the broker, and the schedules say what is wanted: whoever dies in between leaves nothing that the next look,
of whichever scheduler, does not mend.
"""

from collections.abc import Collection, Iterable, Sequence

from warrener_contracts.events import SchedulePutData
from warrener_contracts.topology import TRIGGERS_QUEUE, Binding
from warrener_contracts.triggers import EventRule, TriggerRule
from warrener_runtime.bus.port import Bus, TopologyMismatch
from warrener_runtime.logs import get_logger
from warrener_scheduler.triggers.addresses import required_addresses, triggers_queue_with, upstream_schedules
from warrener_scheduler.triggers.cycles import find_cycle
from warrener_store.schedules.rows import Address
from warrener_store.store import Store

_log = get_logger("triggers")


class TriggerBindings:
    """Asked before and after schedules are put, after they are removed, and to look now and then: somebody
    may have deleted an exchange and made it anew."""

    def __init__(self, bus: Bus, store: Store) -> None:
        self._bus = bus
        self._store = store
        self._triggers = store.triggers

    async def refusals(self, puts: Sequence[SchedulePutData]) -> dict[str, str]:
        """Why some of these cannot be kept, by name: they would start themselves for ever, or there is no
        such exchange."""
        specs = [one for one in puts if isinstance(one.rule, TriggerRule)]
        if not specs:
            return {}
        known = {row.name: row.asked for row in await self._triggers.waiting_schedules()}
        refused: dict[str, str] = {}
        for one in specs:
            if why := _cycle_error(one, known.values()) or await self._find_binding_error(one):
                refused[one.name] = why
            else:
                known[one.name] = one
                refused.pop(one.name, None)  # of two in one batch the later counts
        return refused

    async def drop_schedules(self, schedules: Collection[str]) -> None:
        """These are gone, with what was open for them."""
        await self._triggers.delete_open_arrivals(schedules)
        await self.sync()

    async def sync(self) -> None:
        """Bind what the schedules want, and unbind what none of them does any more."""
        while await self._sync_once():
            pass  # what was unbound may have been wanted anew meanwhile

    async def _sync_once(self) -> bool:
        """One look; whether another is needed."""
        wanted = await self._required_addresses()
        held = await self._triggers.bound()
        await self._triggers.add_bindings(wanted - held)
        if wanted:
            await self._bind(wanted)
        stale = sorted(held - wanted)
        if stale:
            await self._bus.unbind(TRIGGERS_QUEUE.name, [Binding(*address) for address in stale])
            await self._triggers.remove_bindings(stale)
        return bool(stale)

    async def _required_addresses(self) -> set[Address]:
        specs = [row.asked for row in await self._triggers.waiting_schedules()]
        upstreams = {name for one in specs for name in upstream_schedules(one)}
        rows = await self._store.schedules(upstreams) if upstreams else {}
        job_types = {name: row.asked.job_type for name, row in rows.items()}
        return {address for one in specs for address in required_addresses(one, job_types)}

    async def _bind(self, addresses: Iterable[Address]) -> None:
        try:
            missing = await self._bus.bind(triggers_queue_with(set(addresses)))
        except TopologyMismatch as error:
            _log.error(
                "Schedules cannot hear all that they wait for. " + str(error), action="triggers.unbound"
            )
            return
        for one in missing:
            _log.warning(
                "A schedule waits for the messages of an exchange that is not there; looked for again soon.",
                action="triggers.no_exchange",
                exchange=one.exchange,
                key=one.key,
            )

    async def _find_binding_error(self, spec: SchedulePutData) -> str:
        if not isinstance(spec.rule, EventRule):
            return ""
        exchange, address = spec.rule.exchange, (spec.rule.exchange, spec.rule.key)
        await self._triggers.add_bindings([address])
        try:
            missing = await self._bus.bind(triggers_queue_with([address]))
        except TopologyMismatch as error:
            return f"expected an exchange that can be bound, got {exchange!r}: {error}"
        return f"expected an exchange that is there, got {exchange!r}: declare it first" if missing else ""


def _cycle_error(spec: SchedulePutData, known: Iterable[SchedulePutData]) -> str:
    found = find_cycle(spec, known)
    if not found:
        return ""
    return f"expected schedules that do not start themselves, got {' → '.join(found)}: break the circle"
