"""Adopt schedules that agents declare in their code, each declaration once.

The schedule is put → the declaration is noted; a crash in between puts it again, which changes nothing. A
declaration is adopted when it is first received, and never again: no restart undoes what an operator has
changed since, and agents of two releases that restart in turns change nothing.
"""

from collections.abc import Callable, Sequence
from hashlib import sha256

from pydantic_core import to_json

from warrener_contracts.events import AgentAnnounced, ScheduleDeclaration
from warrener_contracts.events.schedule_definition import CODE_OWNER
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_scheduler.schedules.writer import PutRequest, ScheduleWriter
from warrener_store import Store
from warrener_store.schedules.rows import DeclarationRow

_log = get_logger("schedules")


class CodeSchedules:
    """Adopts the schedules of announcements; a repeat changes nothing."""

    def __init__(
        self, store: Store, clock: Clock, on_change: Callable[[], None], writer: ScheduleWriter
    ) -> None:
        self._store = store
        self._clock = clock
        self._on_change = on_change
        self._writer = writer

    async def carry_out(self, events: Sequence[AgentAnnounced]) -> None:
        """Adopt what is new in these announcements, one after the other, and report missing declarations."""
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
            row = DeclarationRow(
                name=declaration.schedule.name,
                definition_hash=declaration_digest(declaration),
                job_type=declaration.schedule.job_type,
                declared_by=event.data.agent_id,
                declared_at=sent_at,
            )
            stored = existing.get(row.name)
            if row.key in known:
                continue  # adopted before, whatever its schedule is now
            if stored is not None and stored.definition.owner != CODE_OWNER:
                _log.info(
                    "A schedule that an agent's code declares is owned by somebody else, and stays as it is.",
                    action="schedules.declaration_not_adopted",
                    schedule=row.name,
                    agent_id=row.declared_by,
                    owner=stored.definition.owner,
                )
                continue
            spec = declaration.schedule.model_copy(update={"owner": CODE_OWNER, "reply_to": None})
            new.append(PutRequest(spec, sent_at))
            declaration_rows.append(row)
        await self._save_accepted(new, declaration_rows, event.data.agent_id)
        if ours := [
            name for name in vanished if name in existing and existing[name].definition.owner == CODE_OWNER
        ]:
            _log.warning(
                "Schedules are no longer declared by an agent that runs their jobs. They go on ticking: "
                "`warrener schedule remove NAME` ends one.",
                action="schedules.vanished",
                agent_id=event.data.agent_id,
                schedules=sorted(ours),
            )

    async def _save_accepted(
        self, new: Sequence[PutRequest], declaration_rows: Sequence[DeclarationRow], agent_id: str
    ) -> None:
        accepted, accepted_rows = list[PutRequest](), list[DeclarationRow]()
        for put, row, why in zip(new, declaration_rows, await self._writer.refusals(new), strict=True):
            if why is None:
                accepted.append(put)
                accepted_rows.append(row)
            else:
                _log.warning(
                    "A schedule that an agent's code declares was refused.",
                    action="schedules.declaration_refused",
                    schedule=put.spec.name,
                    detail=why,
                )
        if not accepted:
            return
        await self._writer.save(accepted)
        await self._store.keep_declarations(accepted_rows)
        self._on_change()
        _log.info(
            "Schedules that an agent's code declares were adopted.",
            action="schedules.adopted",
            agent_id=agent_id,
            schedules=sorted(put.spec.name for put in accepted),
        )


def declaration_digest(declaration: ScheduleDeclaration) -> str:
    """Return the same digest for declarations of the same contents.

    Defaults are left out, so that a new field does not make known declarations new.
    """
    spec = declaration.schedule
    fields = spec.model_dump(mode="json", exclude_defaults=True, exclude={"owner", "reply_to", "rule"})
    rule = spec.rule.model_dump(mode="json", exclude_none=True)
    fields = {"revision": declaration.revision, "rule": rule, "arguments": spec.arguments, **fields}
    return sha256(to_json(dict(sorted(fields.items())))).hexdigest()[:16]
