"""Store schedules with all that hangs on them: those of commands, and those that agents declare in code.

Bound → stored: the events of a schedule are received before it is there. A repeat corrects what a crash in
between leaves.

A declaration is put → noted. It is adopted when it is first received, and never again: no restart undoes what
an operator has changed since, and agents of two releases that restart in turns change nothing.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from hashlib import sha256
from typing import NamedTuple

from pydantic_core import to_json

from warrener_calendar.ticks import check
from warrener_calendar.zones import database_version
from warrener_contracts.events import AgentAnnounced, ScheduleDeclaration, SchedulePutData
from warrener_contracts.events.schedule_definition import CODE_OWNER
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_scheduler.decisions.ticks import plan_first_tick
from warrener_scheduler.triggers.bindings import TriggerBindings
from warrener_store import Store
from warrener_store.schedules.rows import DeclarationRow, ScheduleRow

_log = get_logger("schedules")
_putting_log = get_logger("putting")


class PutRequest(NamedTuple):
    """A schedule to store, and the time of its put."""

    spec: SchedulePutData
    at: datetime


class ScheduleWriter:
    """Says which schedules are refused, and then stores the others."""

    def __init__(self, store: Store, clock: Clock, bindings: TriggerBindings) -> None:
        self._store, self._clock, self._bindings = store, clock, bindings

    async def refusals(self, puts: Sequence[PutRequest]) -> list[str | None]:
        """Return why each of these is refused; None if it is not."""
        problems = [_find_problem(put) for put in puts]
        sound = [put.spec for put, problem in zip(puts, problems, strict=True) if problem is None]
        refused = await self._bindings.refusals(sound)
        return [problem or refused.get(put.spec.name) for put, problem in zip(puts, problems, strict=True)]

    async def save(self, puts: Sequence[PutRequest]) -> None:
        """Store schedules; one that is stored already, or older than the stored one, changes nothing."""
        if not puts:
            return
        now, version = self._clock.now(), database_version()
        rows = (ScheduleRow(definition=put.spec, put_at=put.at, zone_version=version) for put in puts)
        await self._store.put_schedules([plan_first_tick(row, now) for row in rows])
        await self._bindings.sync()


def _find_problem(put: PutRequest) -> str | None:
    """Return why a schedule is refused by itself. One that we fail at is refused, and the others go on."""
    try:
        check(put.spec, put.at)
    except ValueError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 - one schedule must not stop the others
        _putting_log.exception(
            "A schedule could not be checked: a bug.", action="schedules.check_bug", schedule=put.spec.name
        )
        return f"the scheduler failed at it: {type(error).__name__}: {error}"
    return None


class CodeSchedules:
    """Adopts the schedules of announcements; a repeat changes nothing."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        on_change: Callable[[], None],
        writer: ScheduleWriter,
        find_user: Callable[[str], str | None],
    ) -> None:
        """`find_user`: the user to whom a setting gives a job type."""
        self._store, self._clock, self._find_user = store, clock, find_user
        self._on_change, self._writer = on_change, writer

    async def adopt(self, event: AgentAnnounced, user_id: str | None = None) -> None:
        """Adopt what is new in this announcement of a broker user, and report missing declarations. A
        schedule belongs to the user of its job type."""
        names = {item.schedule.name for item in event.data.schedules}
        job_types = {item.name for item in event.data.job_types}
        rows = await self._store.declarations(names, job_types)
        vanished = {row.name for row in rows if row.job_type in job_types} - names
        if not names and not vanished:
            return
        existing = await self._store.schedules(names | vanished)
        foreign = await self._foreign_types(event, existing.values(), user_id)
        known = {row.key for row in rows}
        sent_at = min(event.time or self._clock.now(), self._clock.now())
        new: list[tuple[PutRequest, DeclarationRow]] = []
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
            if foreign & {row.job_type, stored.definition.job_type if stored else row.job_type}:
                _log.warning(
                    "A schedule that an agent's code declares was refused: its job type, or that of the"
                    " stored schedule, belongs to another user of the broker.",
                    action="schedules.declaration_foreign",
                    schedule=row.name,
                    agent_id=row.declared_by,
                    broker_user=user_id,
                )
                continue
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
            new.append((PutRequest(spec, sent_at), row))
        await self._save_accepted(new, event.data.agent_id)
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

    async def _foreign_types(
        self, event: AgentAnnounced, existing: Iterable[ScheduleRow], user_id: str | None
    ) -> set[str]:
        """Return the job types of declared and of stored schedules that belong to another user."""
        names = {one.schedule.job_type for one in event.data.schedules}
        names |= {row.definition.job_type for row in existing}
        stored = await self._store.job_types(names)
        owners = {name: row.broker_user for name, row in stored.items()}
        return {name for name in names if (self._find_user(name) or owners.get(name)) not in {None, user_id}}

    async def _save_accepted(self, new: Sequence[tuple[PutRequest, DeclarationRow]], agent_id: str) -> None:
        accepted: list[tuple[PutRequest, DeclarationRow]] = []
        refusals = await self._writer.refusals([put for put, _ in new])
        for (put, row), why in zip(new, refusals, strict=True):
            if why is None:
                accepted.append((put, row))
            else:
                _log.warning(
                    "A schedule that an agent's code declares was refused.",
                    action="schedules.declaration_refused",
                    schedule=put.spec.name,
                    detail=why,
                )
        if not accepted:
            return
        await self._writer.save([put for put, _ in accepted])
        await self._store.keep_declarations([row for _, row in accepted])
        self._on_change()
        _log.info(
            "Schedules that an agent's code declares were adopted.",
            action="schedules.adopted",
            agent_id=agent_id,
            schedules=sorted(put.spec.name for put, _ in accepted),
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
