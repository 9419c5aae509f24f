"""adopting: schedules that agents declare in their code are kept, each declaration once.

The schedule is put → the declaration is noted. A crash in between puts it again, which changes nothing.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Protocol

from warrener_contracts.events import AgentAnnounced, ScheduleDeclaration
from warrener_contracts.events.schedules import CODE
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_scheduler.calendar.ticks import check
from warrener_scheduler.calendar.zones import database_version
from warrener_scheduler.clock.adoption import Adoption, adoption, declared, fingerprint_of
from warrener_scheduler.clock.deciding import first_time
from warrener_store.schedules.declarations import DeclarationRow, Declarations
from warrener_store.schedules.port import Schedules
from warrener_store.schedules.rows import ScheduleRow

_log = get_logger("schedules")


class _Store(Schedules, Declarations, Protocol):
    """Where both are kept."""


class Adopting:
    """The verb for the schedules of announcements; a repeat changes nothing."""

    def __init__(self, store: _Store, clock: Clock, changed: Callable[[], None]) -> None:
        self._store = store
        self._clock = clock
        self._changed = changed

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
        put, noted = list[ScheduleRow](), list[DeclarationRow]()
        for declaration in event.data.schedules:
            row = self._row(declaration, event, told_at)
            what = adoption(*row.key, known, held[row.name].asked if row.name in held else None)
            if what is Adoption.TAKEN_UP and (schedule := self._schedule(declaration, told_at)):
                put.append(schedule)
                noted.append(row)
            elif what is Adoption.OPERATORS:
                _tell_operators(row, held[row.name].asked.owner)
        if put:
            await self._store.put_schedules(put)
            await self._store.keep_declarations(noted)
            self._changed()
            _log.info(
                "Schedules that an agent's code declares were taken up.",
                action="schedules.adopted",
                agent_id=event.data.agent_id,
                schedules=sorted(row.name for row in put),
            )
        _tell_vanished(event, [name for name in vanished if name in held and held[name].asked.owner == CODE])

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

    def _schedule(self, declaration: ScheduleDeclaration, put_at: datetime) -> ScheduleRow | None:
        asked = declared(declaration)
        try:
            check(asked, put_at)
        except ValueError as error:
            _log.warning(
                "A schedule that an agent's code declares cannot be kept.",
                action="schedules.declaration_refused",
                schedule=asked.name,
                detail=str(error),
            )
            return None
        row = ScheduleRow(asked=asked, put_at=put_at, zone_version=database_version())
        return first_time(row, self._clock.now())


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
