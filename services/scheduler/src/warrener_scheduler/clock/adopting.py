"""adopting: schedules that agents declare in their code are kept, each declaration once.

The schedule is put → the declaration is noted. A crash in between puts it again, which changes nothing.
"""

from collections.abc import Callable, Sequence
from datetime import datetime

from warrener_contracts.events import AgentAnnounced, ScheduleDeclaration
from warrener_contracts.events.schedules import CODE_OWNER
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_scheduler.clock.adoption import Adoption, adoption, declared, fingerprint_of
from warrener_scheduler.clock.putting import Put, Putting
from warrener_store import Store
from warrener_store.schedules.declarations import DeclarationRow

_log = get_logger("schedules")


class Adopting:
    """The verb for the schedules of announcements; a repeat changes nothing."""

    def __init__(self, store: Store, clock: Clock, changed: Callable[[], None], putting: Putting) -> None:
        self._store = store
        self._clock = clock
        self._changed = changed
        self._putting = putting

    async def carry_out(self, events: Sequence[AgentAnnounced]) -> None:
        """Take up what is new in these announcements, one after the other, and report what is not there any
        more."""
        for event in events:
            await self._take_up(event)

    async def _take_up(self, event: AgentAnnounced) -> None:
        names = {told.schedule.name for told in event.data.schedules}
        job_types = {told.name for told in event.data.job_types}
        rows = await self._store.declarations(names, job_types)
        vanished = {row.name for row in rows if row.job_type in job_types} - names
        if not names and not vanished:
            return
        held = await self._store.schedules(names | vanished)
        known = {row.key for row in rows}
        told_at = min(event.time or self._clock.now(), self._clock.now())
        new, noted = list[Put](), list[DeclarationRow]()
        for declaration in event.data.schedules:
            row = self._row(declaration, event, told_at)
            what = adoption(*row.key, known, held[row.name].asked if row.name in held else None)
            if what is Adoption.TAKEN_UP:
                new.append(Put(declared(declaration), told_at))
                noted.append(row)
            elif what is Adoption.OPERATORS:
                _tell_operators(row, held[row.name].asked.owner)
        await self._keep(new, noted, event.data.agent_id)
        _tell_vanished(event, [name for name in vanished if name in held and held[name].asked.owner == CODE_OWNER])

    async def _keep(self, new: Sequence[Put], noted: Sequence[DeclarationRow], agent_id: str) -> None:
        refusals = await self._putting.refusals(new)
        for put, why in zip(new, refusals, strict=True):
            if why is not None:
                _tell_refused(put, why)
        kept = [place for place, why in enumerate(refusals) if why is None]
        if not kept:
            return
        await self._putting.keep([new[place] for place in kept])
        await self._store.keep_declarations([noted[place] for place in kept])
        self._changed()
        _log.info(
            "Schedules that an agent's code declares were taken up.",
            action="schedules.adopted",
            agent_id=agent_id,
            schedules=sorted(new[place].asked.name for place in kept),
        )

    def _row(
        self, declaration: ScheduleDeclaration, event: AgentAnnounced, told_at: datetime
    ) -> DeclarationRow:
        return DeclarationRow(
            name=declaration.schedule.name,
            fingerprint=fingerprint_of(declaration),
            job_type=declaration.schedule.job_type,
            declared_by=event.data.agent_id,
            declared_at=told_at,
        )


def _tell_refused(put: Put, why: str) -> None:
    _log.warning(
        "A schedule that an agent's code declares cannot be kept.",
        action="schedules.declaration_refused",
        schedule=put.asked.name,
        detail=why,
    )


def _tell_operators(row: DeclarationRow, owner: str | None) -> None:
    _log.info(
        "A schedule that an agent's code declares is kept by somebody else, and stays as it is.",
        action="schedules.declaration_left",
        schedule=row.name,
        agent_id=row.declared_by,
        owner=owner,
    )


def _tell_vanished(event: AgentAnnounced, names: Sequence[str]) -> None:
    if names:
        _log.warning(
            "Schedules are declared no more by an agent that runs their jobs. They go on ticking: "
            "`warrener schedule remove NAME` ends one.",
            action="schedules.vanished",
            agent_id=event.data.agent_id,
            schedules=sorted(names),
        )
