"""Gates in both databases. Suite: `tests/conformance/test_store_gates.py`."""

from collections.abc import Collection, Iterable, Sequence, Set
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from warrener_store.databases.session import SqlSession
from warrener_store.encoding import encode, escape, unescape
from warrener_store.gates.rows import (
    MAX_COUNTED,
    GateRoom,
    GateRow,
    GateWaiter,
    Slot,
    SlotClaim,
    blocking_gate,
    slot_claim,
)
from warrener_store.jobs.rows import JobRow
from warrener_store.mapping import RowMapper, encode_text

SLOTS = RowMapper(Slot)
WAITERS = RowMapper(GateWaiter)
_ROOMS = RowMapper(GateRoom)
_GATES = RowMapper(GateRow)
_WOKEN_AT_ONCE = 500
_UNDECLARED = datetime.min.replace(tzinfo=UTC)
WORDS = {"slot": ", ".join(SLOTS.columns), "gate_waiter": ", ".join(WAITERS.columns)}


class GateStore(SqlSession):
    """Slots of gates, and the lines of jobs that wait for one.

    A taker locks the gates, then counts in a statement of its own; who frees a slot locks none. A job is put
    in line and then the gate looked at again, a slot is freed and then the line looked at: the second of them
    sees the first.
    """

    async def take_slots(
        self, claims: Sequence[SlotClaim], now: datetime, *, fresh: bool = False, in_line: bool = True
    ) -> set[UUID]:
        """Take a slot of each of its gates for each of these jobs, or none for it; return those that have all
        of theirs now, also from before: then their slots count for the attempt claimed.

        The first of these come first; none comes before a job that waits before one of its gates for longer,
        unless `in_line` is False. `fresh`: the jobs are not inserted yet, so those that exist take nothing;
        and the gates have the claimed numbers of slots from now on, unless a newer announcement has others.
        """
        if not claims:
            return set()
        claims = list({claim.job_id: claim for claim in claims}.values())
        needs = encode(
            [
                (str(claim.job_id), claim.attempt, escape(name), self._moment_text(claim.since))
                for claim in claims
                for name, _ in claim.gates
            ]
        )
        moment = self.codec.encode_moment(now)
        await self._change_together(
            ("lock_gates", (self._named(claims), moment, fresh)),
            ("renew_slots", (needs, moment)),
            ("take_slots", (needs, moment, in_line, fresh)),
        )
        held: dict[UUID, set[str]] = {}
        for job_id, gate in await self._query("held_slots", self._ids({claim.job_id for claim in claims})):
            held.setdefault(self.codec.decode_id(job_id), set()).add(unescape(gate))
        return {
            claim.job_id
            for claim in claims
            if held.get(claim.job_id, set()).issuperset(name for name, _ in claim.gates)
        }

    async def declare_gates(self, claims: Sequence[SlotClaim], now: datetime) -> None:
        """Give the gates the claimed numbers of slots, unless a newer announcement has others. For jobs that
        claim later, when nobody knows the announcement."""
        if claims:
            named = self._named(claims), self.codec.encode_moment(now), True
            await self._change_together(("lock_gates", named))

    def _named(self, claims: Sequence[SlotClaim]) -> str:
        """The gates of claims as `lock_gates` takes them: the newest announcement counts."""
        gates = {
            escape(name): (slots, claim.declared_at and self._moment_text(claim.declared_at))
            for claim in sorted(claims, key=lambda claim: claim.declared_at or _UNDECLARED)
            for name, slots in claim.gates
        }
        # In Python's order of escaped names, the same everywhere; the statement sorts them again.
        return encode([(name, *gates[name]) for name in sorted(gates)])

    async def release_slots(self, ended: Collection[tuple[UUID, int]]) -> set[str]:
        """Free the slots that these jobs have taken for these attempts or earlier ones; the gates that have
        more room now."""
        if not ended:
            return set()
        latest: dict[UUID, int] = {}
        for job_id, attempt in ended:
            latest[job_id] = max(attempt, latest.get(job_id, 0))
        return self._gates(await self._change("release_slots", *self._pairs(sorted(latest.items()))))

    async def drop_slots(self, slots: Iterable[Slot]) -> None:
        """Free these slots, unless they were taken again since they were read."""
        await self._put(SLOTS, "drop_slots", slots)

    async def add_waiters(self, jobs: Sequence[GateWaiter]) -> None:
        """Have these jobs wait before these gates. A job waits before one gate, and one that has begun to
        wait later stays."""
        latest = {job.job_id: job for job in sorted(jobs, key=lambda job: job.since)}
        await self._put(WAITERS, "add_waiters", latest.values())

    async def remove_waiters(self, jobs: Iterable[GateWaiter]) -> None:
        """Take these out of their lines; a job that waits there again stays."""
        await self._put(WAITERS, "remove_waiters", sorted(jobs))

    async def wait_for_slots(self, claims: Sequence[SlotClaim], now: datetime) -> None:
        """Have jobs that got no slots wait before the first of their gates that has none for them. Those that
        come next are made due if there is room after all: a slot may have become free before they waited."""
        if not claims:
            return
        rooms = await self.gate_rooms({name for claim in claims for name, _ in claim.gates})
        waiters = [GateWaiter(claim.job_id, blocking_gate(claim, rooms), claim.since) for claim in claims]
        await self.add_waiters(waiters)
        await self.wake_heads({waiter.gate for waiter in waiters}, now)

    async def wake_heads(self, gates: Collection[str], now: datetime) -> None:
        """Make the jobs due that come next at those of these gates that have room."""
        if heads := await self.line_heads(gates, _WOKEN_AT_ONCE):
            moment = self.codec.encode_moment(now)
            await self._change("wake_waiters", self._ids({head.job_id for head in heads}), moment)

    async def take_or_wait(self, rows: Sequence[JobRow], probes: Set[UUID], now: datetime) -> set[UUID]:
        """Take slots for waiting jobs, and put the others in line; return those that have theirs. Probes of
        breakers go before those that wait for longer."""
        granted: set[UUID] = set()
        for is_probe in (True, False):
            claims = [slot_claim(row, now) for row in rows if (row.job_id in probes) is is_probe]
            granted |= await self.take_slots(claims, now, in_line=not is_probe)
        await self.wait_for_slots([slot_claim(row, now) for row in rows if row.job_id not in granted], now)
        return granted

    async def gate_rooms(self, gates: Collection[str]) -> dict[str, GateRoom]:
        """How full these gates are."""
        rows = await self._rows(_ROOMS, "gate_rooms", self._names(gates)) if gates else ()
        return {row.gate: row for row in rows}

    async def line_heads(
        self, gates: Collection[str], limit: int, *, beyond: bool = False
    ) -> list[GateWaiter]:
        """The jobs that come next at those of these gates that have room: as many of each as it has room for,
        or more (`beyond`), and `limit` of all. They may not wait any longer."""
        rooms = [room for room in (await self.gate_rooms(gates)).values() if room.free > 0 and room.has_line]
        if not rooms:
            return []
        rooms = rooms[:limit]
        first = limit // len(rooms)
        if not beyond:
            first = min(first, max(room.free for room in rooms))
        names = self._names([room.gate for room in rooms])
        found: dict[str, list[GateWaiter]] = {}
        for row in await self._rows(WAITERS, "line_heads", names, first):
            found.setdefault(row.gate, []).append(row)
        return [row for room in rooms for row in found.get(room.gate, [])[: None if beyond else room.free]]

    # -- looking at all of them ------------------------------------------------------------------------------

    async def slots_after(self, position: tuple[str, int], limit: int) -> list[Slot]:
        """A page of all slots that are taken, in the order of gate and number, behind this position."""
        return await self._rows(SLOTS, "slots_after", encode_text(position[0]), position[1], limit)

    async def waited_gates(self, after: str, limit: int) -> list[str]:
        """A page of the gates that jobs wait before, in order."""
        return [unescape(row[0]) for row in await self._query("waited_gates", encode_text(after), limit)]

    async def prune_gates(self, after: str, before: datetime, limit: int) -> str | None:
        """Delete those of the next gates that are not used and have not changed since `before`; return the
        last one that was looked at, None at the end."""
        moment = self.codec.encode_moment(before)
        page = [
            (unescape(row[0]), row[1])
            for row in await self._query("idle_gates", escape(after), moment, limit)
        ]
        if idle := [gate for gate, is_idle in page if is_idle]:
            await self._change("drop_gates", self._names(idle))
        return page[-1][0] if len(page) == limit else None

    async def gates_from(self, first: str, limit: int) -> list[GateRow]:
        """A page of all gates from this one on, in order."""
        return await self._rows(_GATES, "gates_from", escape(first), limit, MAX_COUNTED + 1)

    # -- one of them -----------------------------------------------------------------------------------------

    async def slots_of(self, gate: str, limit: int) -> list[Slot]:
        """The first slots of a gate that are taken."""
        return await self._rows(SLOTS, "slots_of", encode_text(gate), limit)

    async def set_slots(self, gate: str, slots: int | None, now: datetime) -> None:
        """Have a gate this number of slots, whatever is announced; None: the announced one again."""
        moment = self.codec.encode_moment(now)
        if slots is None:
            await self._change("reset_slots", escape(gate), moment)
        else:
            await self._change("set_slots", escape(gate), slots, moment)

    async def first_waiters(self, gate: str, limit: int) -> list[GateWaiter]:
        """The first rows of a line; some may wait no longer."""
        return await self._rows(WAITERS, "line_heads", self._names([gate]), limit)

    async def waiter_of(self, job_id: UUID) -> GateWaiter | None:
        """The gate before which a job waits."""
        rows = await self._rows(WAITERS, "waiter_of", self.codec.encode_id(job_id))
        return rows[0] if rows else None

    async def count_before(self, job: GateWaiter, limit: int) -> int:
        """How many rows of a line come before this one, counted up to `limit`; some may wait no longer."""
        job_id, gate, since = WAITERS.to_row(job, self.codec)
        return int((await self._query("place_in_line", gate, since, job_id, limit))[0][0])

    def _moment_text(self, moment: datetime) -> str:
        text = self.codec.encode_moment(moment)
        return text if isinstance(text, str) else moment.isoformat()

    def _pairs(self, pairs: Sequence[tuple[UUID, int]]) -> tuple[Any, ...]:
        """Ids with numbers, as a statement of each database takes them."""
        if isinstance(self.codec.encode_id(pairs[0][0]), str):
            return (encode([(str(job_id), number) for job_id, number in pairs]),)
        return [job_id for job_id, _ in pairs], [number for _, number in pairs]

    @staticmethod
    def _gates(rows: Any) -> set[str]:
        return {unescape(row[0]) for row in rows}
