"""Keep the bindings of the triggers queue in step with the schedules.

Noted → bound → schedules stored; schedules removed → unbound → note removed. The notes in the store are ahead
of the broker, and the schedules say what is required: after a crash in between, the next sync of any
scheduler corrects the rest.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from warrener_contracts.events import SchedulePutData
from warrener_contracts.topology import EVENTS, PUBLIC_EVENTS, TRIGGERS_QUEUE, Binding
from warrener_contracts.triggers import EventRule, TriggerRule
from warrener_runtime.bus.port import Bus, TopologyMismatch
from warrener_runtime.logs import get_logger
from warrener_scheduler.decisions import trigger_graph
from warrener_store.schedules.rows import Address
from warrener_store.store import Store

_log = get_logger("triggers")


class TriggerBindings:
    """Binds and unbinds; also synced now and then, because an exchange may be deleted and declared again."""

    def __init__(self, bus: Bus, store: Store, allowed: Mapping[str, Collection[str]]) -> None:
        """`allowed`: topic patterns of the exchanges that schedules may wait for, beside public events."""
        self._bus, self._store, self._triggers = bus, store, store.triggers
        self._allowed = allowed
        self._reported = set[Address]()

    async def refusals(self, puts: Sequence[SchedulePutData]) -> dict[str, str]:
        """Return why some of these are refused, by name: a cycle of schedules, or an exchange that is missing
        or not allowed."""
        specs = [one for one in puts if isinstance(one.rule, TriggerRule)]
        if not specs:
            return {}
        known = {name: row.definition for name, row in (await self._store.schedules(triggered=True)).items()}
        refused: dict[str, str] = {}
        for one in specs:
            if why := _cycle_error(one, known.values()) or await self._find_binding_error(one):
                refused[one.name] = why
            else:
                known[one.name] = one
                refused.pop(one.name, None)  # the later of two in one batch counts
        return refused

    async def sync(self) -> None:
        """Bind what the schedules require, and unbind the rest."""
        while await self._sync_once():
            pass  # an address that was unbound may be required again by now

    async def _sync_once(self) -> bool:
        """Sync once. True if another pass is needed."""
        wanted = await self._required_addresses()
        held = await self._triggers.add_bindings(wanted)
        if wanted:
            await self._bind(wanted)
        stale = sorted(held - wanted)
        if stale:
            await self._bus.unbind(TRIGGERS_QUEUE.name, [Binding(*address) for address in stale])
            await self._triggers.remove_bindings(stale)
        return bool(stale)

    async def _required_addresses(self) -> set[Address]:
        specs = [row.definition for row in (await self._store.schedules(triggered=True)).values()]
        upstreams = {name for one in specs for name in trigger_graph.upstream_schedules(one)}
        rows = await self._store.schedules(upstreams) if upstreams else {}
        job_types = {name: row.definition.job_type for name, row in rows.items()}
        wanted = {address for one in specs for address in trigger_graph.required_addresses(one, job_types)}
        refused = {one for one in wanted if not trigger_graph.is_allowed(one, self._allowed)}
        for exchange, key in sorted(refused - self._reported):
            _log.warning(
                "Schedules wait for messages that no setting allows, and receive none: see "
                "WARRENER_SCHEDULER_TRIGGER_EXCHANGES.",
                action="triggers.not_allowed",
                exchange=exchange,
                key=key,
            )
        self._reported = refused
        return wanted - refused

    async def _bind(self, addresses: Iterable[Address]) -> None:
        try:
            missing = await self._bus.bind(trigger_graph.triggers_queue_with(set(addresses)))
        except TopologyMismatch as error:
            _log.error(
                "Schedules cannot receive all events that they wait for. " + str(error),
                action="triggers.unbound",
            )
            return
        for one in missing:
            _log.warning(
                "A schedule waits for messages of a missing exchange; it is looked for again soon.",
                action="triggers.no_exchange",
                exchange=one.exchange,
                key=one.key,
            )

    async def _find_binding_error(self, spec: SchedulePutData) -> str:
        if not isinstance(spec.rule, EventRule):
            return ""
        exchange, address = spec.rule.exchange, (spec.rule.exchange, spec.rule.key)
        if not trigger_graph.is_allowed(address, self._allowed):
            return (
                f"expected a key of {EVENTS} among {', '.join(PUBLIC_EVENTS)}, or of an exchange that "
                f"WARRENER_SCHEDULER_TRIGGER_EXCHANGES allows, got {spec.rule.key!r} of {exchange!r}"
            )
        await self._triggers.add_bindings([address])
        try:
            missing = await self._bus.bind(trigger_graph.triggers_queue_with([address]))
        except TopologyMismatch as error:
            return f"expected an exchange that can be bound, got {exchange!r}: {error}"
        return f"expected an exchange that is there, got {exchange!r}: declare it first" if missing else ""


def _cycle_error(spec: SchedulePutData, known: Iterable[SchedulePutData]) -> str:
    found = trigger_graph.find_cycle(spec, known)
    if not found:
        return ""
    return f"expected schedules that do not start themselves, got {' → '.join(found)}: break the circle"
