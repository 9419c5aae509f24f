"""Give slots that become free to the jobs that wait for them, and dispatch these (decision 0036).

A verdict commits, then its job's slots are freed, then the lines are looked at, then the message of the
report is acknowledged: a repeat does all of it again. An admission takes slots, saves the job as queued,
publishes its dispatch, and takes the job out of its line. A supervisor may die anywhere: the job is in the
line still, and has its slots; the next look ends its admission. The sweep finds what was not looked at.
"""

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from datetime import datetime, timedelta
from uuid import UUID

from warrener_contracts.events import GateSetRequested
from warrener_contracts.gates import is_gate_of
from warrener_contracts.identity import job_id_of
from warrener_contracts.state_machine import JobState
from warrener_runtime.logs import get_logger
from warrener_store.audit.rows import AuditOutcome, AuditRecord
from warrener_store.breakers.gate import RECHECK_INTERVAL, BreakerRow, OpenBreakers
from warrener_store.gates.rows import (
    SLOT_RECHECK,
    SLOT_WITHOUT_JOB,
    WAITING_STATES,
    GateWaiter,
    Slot,
    slot_claim,
    still_waits,
    takes_turns,
)
from warrener_store.jobs.rows import JobRow, Save, evolve
from warrener_supervisor.decisions.missing_dispatches import jobs_per_message
from warrener_supervisor.effects import SupervisorPorts, keep_unpublished, load_resumptions
from warrener_supervisor.notifications import FROM_THE_BEGINNING, dispatch_message
from warrener_supervisor.trace_spans import JobSpans

_log = get_logger("limits")

_AT_ONCE = 500  # jobs that are admitted together
_MAX_ROUNDS = 20
_PAGE, _PAGES = 500, 4  # rows of each kind that a sweep reads
_IDLE_GATE = timedelta(hours=1)


class SlotKeeper:
    """Frees slots, and admits the jobs that come next."""

    def __init__(
        self, ports: SupervisorPorts, *, spans: JobSpans, listed_jobs: Callable[[], Set[UUID] | None]
    ) -> None:
        """`listed_jobs`: those in the heartbeats of living agents; None while some may have been missed."""
        self._ports, self._spans, self._listed_jobs = ports, spans, listed_jobs
        _, self._store, self._clock, timings = ports
        # After it nothing runs any longer of a job that has ended without a report of its agent.
        self._lease = timings.lease + timings.timeout_grace
        self._slot, self._line, self._gate = ("", 0), "", ""  # positions of the sweep

    async def release(self, ended: Collection[tuple[UUID, int]]) -> None:
        """Free what these jobs have taken for these attempts or earlier ones, and admit the next."""
        await self.admit(await self._store.release_slots(ended))

    async def admit(self, gates: Collection[str]) -> None:
        """Dispatch the first jobs in the lines of gates that have room."""
        beyond = False
        for _ in range(_MAX_ROUNDS):
            heads = await self._store.line_heads(gates, _AT_ONCE, beyond=beyond)
            if not heads:
                return
            rows = await self._drop_idle(heads)
            if rows and not beyond:
                await self._admit([head for head in heads if head.job_id in rows], rows)
            # Behind a head that waits no longer may be thousands, as after the cancel of a tree.
            beyond = not rows

    async def retry(self, rows: Sequence[JobRow]) -> None:
        """Dispatch retries with gates that are due, or put them in line; a claim of them must hold."""
        breakers, now = await self._breakers(rows), self._clock.now()
        held = [row for row in rows if breakers.holds(row, now)]
        free = [row for row in rows if not breakers.holds(row, now)]
        probes = {row.job_id for row in free if _blocking(row, breakers)}
        granted = await self._store.take_or_wait(free, probes, now)
        refused = [row for row in free if row.job_id not in granted]
        later = [(held, RECHECK_INTERVAL), (refused, SLOT_RECHECK)]
        saves = [_put_off(row, now + wait, now) for some, wait in later for row in some]
        await self._save(saves)
        await self._dispatch([row for row in free if row.job_id in granted])

    async def _drop_idle(self, heads: Sequence[GateWaiter]) -> dict[UUID, JobRow]:
        """Take jobs out of line that wait no longer, or are held back by a breaker, which wakes them; return
        the others."""
        rows, now = await self._store.jobs_by_id({head.job_id for head in heads}), self._clock.now()
        breakers = await self._breakers(rows.values())
        waiting = {
            head.job_id: row
            for head in heads
            if (row := rows.get(head.job_id)) is not None and still_waits(row, head, now)
        }
        held = [row for row in waiting.values() if _blocking(row, breakers)]
        saved = await self._save([_put_off(row, now + RECHECK_INTERVAL, now) for row in held])
        await self._store.remove_waiters(
            [head for head in heads if head.job_id not in waiting or head.job_id in saved]
        )
        for row in held:
            del waiting[row.job_id]
        return waiting

    async def _admit(self, heads: Sequence[GateWaiter], rows: Mapping[UUID, JobRow]) -> None:
        """Dispatch those that get their slots; the others wait before another of their gates."""
        now = self._clock.now()
        claims = [slot_claim(rows[head.job_id], now) for head in heads]
        granted = await self._store.take_slots(claims, now, in_line=False)
        await self._store.wait_for_slots([claim for claim in claims if claim.job_id not in granted], now)
        admitted = await self._dispatch([rows[head.job_id] for head in heads if head.job_id in granted])
        await self._store.remove_waiters([head for head in heads if head.job_id in admitted])

    async def _dispatch(self, rows: Sequence[JobRow]) -> set[UUID]:
        """Queue and publish jobs that have their slots; return those of which that is done. One that was put
        off or woken since it was read is tried again; one that has ended needs no slot."""
        dispatched = await self._publish(rows)
        before = {row.job_id: row for row in rows if row.job_id not in dispatched}
        after = (await self._store.jobs_by_id(before)).values()
        unbegun = [row for row in after if _attempt(row) == _attempt(before[row.job_id])]
        over = [row for row in unbegun if row.state.terminal or row.is_replaced]
        await self.release([(row.job_id, max(row.attempt, 1)) for row in over])
        again = [row for row in unbegun if row.state in WAITING_STATES and not row.is_replaced]
        return dispatched | (await self._publish(again) if again else set[UUID]())

    async def _publish(self, rows: Sequence[JobRow]) -> set[UUID]:
        """Queue and publish these; return those that nobody else has changed."""
        now = self._clock.now()
        queued = [
            evolve(
                row,
                version=row.version + 1,
                state=JobState.QUEUED,
                attempt=max(row.attempt, 1),
                due_at=None,
                wake_at=now + row.policy.start_timeout,
                dispatched_at=now,
                updated_at=now,
            )
            for row in rows
        ]
        applied = await self._save(queued)
        mine = [row for row in queued if row.job_id in applied]
        if mine:
            self._spans.record_waits_until(now, [row for row in rows if row.job_id in applied])
            resumptions = await load_resumptions(self._ports, mine)
            messages = [
                dispatch_message(row, now, resumptions.get(row.job_id, FROM_THE_BEGINNING))._replace(
                    dispatch_batch=jobs_per_message(row)
                )
                for row in mine
            ]
            await keep_unpublished(self._ports, await self._ports.publish(messages))
            _log.debug(
                "Jobs that waited for a slot were dispatched.", action="limits.admitted", jobs=len(mine)
            )
        return applied

    async def _save(self, rows: Sequence[JobRow]) -> set[UUID]:
        return await self._store.save_jobs([Save(row) for row in rows]) if rows else set()

    async def _breakers(self, rows: Collection[JobRow]) -> OpenBreakers:
        return OpenBreakers(await self._store.breakers()) if rows else OpenBreakers()

    async def set_slots(self, event: GateSetRequested) -> str | None:
        """Set or reset the slots of a gate by a command, record that, and admit who has room now. Return why
        there is no such gate. A repeat is recorded once, and sets the number again."""
        data, now = event.data, self._clock.now()
        if not await self._is_gate(data.name):
            return f"expected the name of a gate, got {data.name!r}; see `warrener gate list`"
        await self._store.set_slots(data.name, data.slots, now)
        done = "as announced" if data.slots is None else f"{data.slots} by hand"
        await self._store.record_action(
            AuditRecord(
                record_id=job_id_of(event.source, event.id),
                recorded_at=now,
                actor=data.by,
                role="",
                method="command",
                address="",
                action="gate.reset" if data.slots is None else "gate.set",
                subject=data.name,
                reason=data.reason,
                outcome=AuditOutcome.ACCEPTED,
                sentence=f"its slots are {done}",
                completed_at=now,
            )
        )
        await self.admit([data.name])
        return None

    async def _is_gate(self, name: str) -> bool:
        if any(row.gate == name for row in await self._store.gates_from(name, 1)):
            return True
        types = await self._store.job_types()
        return any(is_gate_of(name, row.name, row.policy.gates) for row in types.values())

    # -- the sweep -------------------------------------------------------------------------------------------

    async def run_once(self) -> None:
        """Free slots whose jobs have ended without a report, and admit at gates that were not looked at: some
        of all, and the next time those that follow."""
        for _ in range(_PAGES):
            slots = await self._store.slots_after(self._slot, _PAGE)
            await self._sweep(slots)
            self._slot = (slots[-1].gate, slots[-1].number) if len(slots) == _PAGE else ("", 0)
            if not self._slot[0]:
                break
        for _ in range(_PAGES):
            gates = await self._store.waited_gates(self._line, _PAGE)
            await self.admit(gates)
            self._line = gates[-1] if len(gates) == _PAGE else ""
            if not self._line:
                break
        before = self._clock.now() - _IDLE_GATE
        self._gate = await self._store.prune_gates(self._gate, before, _PAGE) or ""

    async def _sweep(self, slots: Sequence[Slot]) -> None:
        now = self._clock.now()
        old = [slot for slot in slots if now - slot.taken_at >= self._lease]
        states = await self._store.child_status({slot.job_id for slot in old}) if old else {}
        waiting = [job_id for job_id, at in states.items() if at.state in WAITING_STATES]
        limited = [row for row in (await self._store.jobs_by_id(waiting)).values() if takes_turns(row)]
        breakers = await self._breakers(limited)
        stuck = [row for row in limited if row.due_at and row.due_at <= now and not _blocking(row, breakers)]
        since = {row.job_id: row.updated_at for row in limited}
        for row in stuck:
            del since[row.job_id]
        since |= {job_id: at.finished_at for job_id, at in states.items() if at.finished_at is not None}
        since |= {slot.job_id: slot.taken_at + SLOT_WITHOUT_JOB for slot in old if slot.job_id not in states}
        over = {job_id for job_id, at in since.items() if now - at >= self._lease}
        listed = self._listed_jobs()
        free = [
            slot for slot in old if listed is not None and slot.job_id in over and slot.job_id not in listed
        ]
        if free:
            _log.info("Slots of ended jobs were freed.", action="limits.swept", slots=len(free))
            await self._store.drop_slots(free)
            await self.admit({slot.gate for slot in free})
        # Their taker has died before it dispatched them.
        granted = await self._store.take_slots([slot_claim(row, now) for row in stuck], now, in_line=False)
        await self._dispatch([row for row in stuck if row.job_id in granted])


def _blocking(row: JobRow, breakers: OpenBreakers) -> BreakerRow | None:
    return breakers.find_blocking(row.job_type, row.policy, row.queue)


def _attempt(row: JobRow) -> tuple[int, datetime | None]:
    """Return another value once the job was dispatched again."""
    return row.attempt, row.dispatched_at


def _put_off(row: JobRow, until: datetime, now: datetime) -> JobRow:
    return evolve(row, version=row.version + 1, wake_at=until, updated_at=now)
