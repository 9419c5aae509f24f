"""adopting: schedules that agents declare in their code are kept, each declaration once.

The schedule is put → the declaration is noted. A crash in between puts it again, which changes nothing.
"""

from collections.abc import Callable, Sequence
from datetime import datetime

from warrener_contracts.events import AgentAnnounced, ScheduleDeclaration
from warrener_contracts.events.schedules import CODE_OWNER
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_scheduler.schedules.adoption import (
    Adoption,
    decide_adoption,
    declaration_digest,
    spec_from_declaration,
)
from warrener_scheduler.schedules.writer import PutRequest, ScheduleWriter
from warrener_store import Store
from warrener_store.schedules.rows import DeclarationRow

_log = get_logger("schedules")


class CodeSchedules:
    """The verb for the schedules of announcements; a repeat changes nothing."""

    def __init__(
        self, store: Store, clock: Clock, on_change: Callable[[], None], writer: ScheduleWriter
    ) -> None:
        self._store = store
        self._clock = clock
        self._on_change = on_change
        self._writer = writer

    async def carry_out(self, events: Sequence[AgentAnnounced]) -> None:
        """Take up what is new in these announcements, one after the other, and report what is not there any
        more."""
        for event in events:
            await self._adopt(event)

    async def _adopt(self, event: AgentAnnounced) -> None:
        names = {item.schedule.name for item in event.data.schedules}
        job_types = {item.name for item in event.data.job_types}
        rows = await self._store.declarations(names, job_types)
        vanished = {row.name for row in rows if row.job_type in job_types} - names
        if not names and not vanished:
            return
        existing = await self._store.schedules(names | vanished)
        known = {row.key for row in rows}
        sent_at = min(event.time or self._clock.now(), self._clock.now())
        new, declaration_rows = list[PutRequest](), list[DeclarationRow]()
        for declaration in event.data.schedules:
            row = self._row(declaration, event, sent_at)
            what = decide_adoption(
                *row.key, known, existing[row.name].asked if row.name in existing else None
            )
            if what is Adoption.ADOPT:
                new.append(PutRequest(spec_from_declaration(declaration), sent_at))
                declaration_rows.append(row)
            elif what is Adoption.OPERATOR_OWNED:
                _log_operator_owned(row, existing[row.name].asked.owner)
        await self._save_accepted(new, declaration_rows, event.data.agent_id)
        _log_vanished(
            event,
            [name for name in vanished if name in existing and existing[name].asked.owner == CODE_OWNER],
        )

    async def _save_accepted(
        self, new: Sequence[PutRequest], declaration_rows: Sequence[DeclarationRow], agent_id: str
    ) -> None:
        refusals = await self._writer.refusals(new)
        for put, why in zip(new, refusals, strict=True):
            if why is not None:
                _log_refused(put, why)
        accepted = [place for place, why in enumerate(refusals) if why is None]
        if not accepted:
            return
        await self._writer.save([new[place] for place in accepted])
        await self._store.keep_declarations([declaration_rows[place] for place in accepted])
        self._on_change()
        _log.info(
            "Schedules that an agent's code declares were taken up.",
            action="schedules.adopted",
            agent_id=agent_id,
            schedules=sorted(new[place].spec.name for place in accepted),
        )

    def _row(
        self, declaration: ScheduleDeclaration, event: AgentAnnounced, sent_at: datetime
    ) -> DeclarationRow:
        return DeclarationRow(
            name=declaration.schedule.name,
            fingerprint=declaration_digest(declaration),
            job_type=declaration.schedule.job_type,
            declared_by=event.data.agent_id,
            declared_at=sent_at,
        )


def _log_refused(put: PutRequest, why: str) -> None:
    _log.warning(
        "A schedule that an agent's code declares cannot be kept.",
        action="schedules.declaration_refused",
        schedule=put.spec.name,
        detail=why,
    )


def _log_operator_owned(row: DeclarationRow, owner: str | None) -> None:
    _log.info(
        "A schedule that an agent's code declares is kept by somebody else, and stays as it is.",
        action="schedules.declaration_left",
        schedule=row.name,
        agent_id=row.declared_by,
        owner=owner,
    )


def _log_vanished(event: AgentAnnounced, names: Sequence[str]) -> None:
    if names:
        _log.warning(
            "Schedules are declared no more by an agent that runs their jobs. They go on ticking: "
            "`warrener schedule remove NAME` ends one.",
            action="schedules.vanished",
            agent_id=event.data.agent_id,
            schedules=sorted(names),
        )
