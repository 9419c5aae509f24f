"""binding: the bindings of the triggers queue are kept in step with the schedules.

Refused or bound → schedules kept → listed → bound → what nobody wants any more unbound → listed as it is.
The list in the store is ahead of the broker where something is added and behind it where something goes; so
whoever dies in between leaves nothing that the next look does not find.
"""

from collections.abc import Iterable, Sequence

from warrener_contracts.events import SchedulePutData
from warrener_contracts.topology import TRIGGERS_QUEUE, Binding
from warrener_contracts.triggers import EventRule, TriggerRule
from warrener_runtime.bus.port import Bus, TopologyMismatch
from warrener_runtime.logs import get_logger
from warrener_scheduler.triggers.addresses import Address, addresses_of, bound, upstream_schedules
from warrener_scheduler.triggers.loops import loop_of
from warrener_store.store import Store
from warrener_store.triggers.rows import Trigger, TriggerRow

_log = get_logger("triggers")


class Bindings:
    """Run before and after schedules are put, after they are removed, at the start, and now and then:
    somebody may have deleted an exchange and made it anew."""

    def __init__(self, bus: Bus, store: Store) -> None:
        self._bus = bus
        self._store = store

    async def refusals(self, wishes: Sequence[SchedulePutData]) -> dict[str, str]:
        """Why some of these cannot be kept, by name: they would start themselves for ever, or there is no
        such exchange. What the others wait for is bound."""
        asked = [one for one in wishes if isinstance(one.rule, TriggerRule)]
        if not asked:
            return {}
        known = {
            one.schedule.name: one.schedule.asked
            for one in await self._store.triggers.all_triggers()
            if one.schedule is not None
        }
        refused: dict[str, str] = {}
        for one in asked:
            if why := _circle(one, known.values()) or await self._unbindable(one):
                refused[one.name] = why
            else:
                known[one.name] = one
        return refused

    async def follow(self, put: Iterable[SchedulePutData] = ()) -> None:
        """Bind what the schedules want, these among them, and unbind what none does any more."""
        await self._list(put)
        stale = True
        while stale:  # what was unbound may have been wanted anew meanwhile
            stale = await self._follow(await self._store.triggers.all_triggers())

    async def look(self) -> None:
        """The same from time to time."""
        await self.follow()

    async def _list(self, put: Iterable[SchedulePutData]) -> None:
        """Before it is bound, and beside what was bound for it before."""
        waiting = [one for one in put if isinstance(one.rule, TriggerRule)]
        if not waiting:
            return
        held = {one.row.schedule: one.row.bindings for one in await self._store.triggers.all_triggers()}
        wanted = await self._wanted(waiting)
        await self._store.triggers.put_triggers(
            [TriggerRow(name, (*held.get(name, ()), *addresses)) for name, addresses in wanted.items()]
        )

    async def _follow(self, triggers: Sequence[Trigger]) -> bool:
        """Whether something was unbound."""
        if not triggers:
            return False
        asked = [one.schedule.asked for one in triggers if one.schedule is not None]
        wanted = await self._wanted([one for one in asked if isinstance(one.rule, TriggerRule)])
        addresses = {address for some in wanted.values() for address in some}
        if addresses:
            await self._bind(addresses)
        listed = {address for one in triggers for address in one.row.bindings}
        stale = sorted(listed - addresses)
        await self._bus.unbind(TRIGGERS_QUEUE.name, [Binding(*address) for address in stale])
        rows = [TriggerRow(name, some) for name, some in wanted.items()]
        held = {one.row for one in triggers}
        await self._store.triggers.put_triggers([row for row in rows if row not in held])
        await self._store.triggers.drop_triggers([row.schedule for row in held if row.schedule not in wanted])
        return bool(stale)

    async def _wanted(self, asked: Sequence[SchedulePutData]) -> dict[str, tuple[Address, ...]]:
        upstreams = {name for one in asked for name in upstream_schedules(one)}
        rows = await self._store.schedules(upstreams) if upstreams else {}
        job_types = {name: row.asked.job_type for name, row in rows.items()}
        return {one.name: addresses_of(one, job_types) for one in asked}

    async def _bind(self, addresses: Iterable[Address]) -> None:
        try:
            missing = await self._bus.bind(bound(set(addresses)))
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

    async def _unbindable(self, asked: SchedulePutData) -> str:
        if not isinstance(asked.rule, EventRule):
            return ""
        rule = asked.rule
        try:
            missing = await self._bus.bind(bound([(rule.exchange, rule.key)]))
        except TopologyMismatch as error:
            return f"exchange {rule.exchange!r} cannot be bound: {error}"
        return (
            f"expected an exchange that is there, got {rule.exchange!r}: declare it first" if missing else ""
        )


def _circle(asked: SchedulePutData, known: Iterable[SchedulePutData]) -> str:
    found = loop_of(asked, known)
    if not found:
        return ""
    return f"expected schedules that do not start themselves, got {' → '.join(found)}: break the circle"
