"""What must be true of a warren once everything in it has come to its end (design, section 3)."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from uuid import UUID

from tests.simulation.workload import POISON
from tests.simulation.world import World

from warrener_contracts.events import JobFinished, JobRejected
from warrener_contracts.state_machine import JobState
from warrener_scheduler.decisions.admission import was_rejected
from warrener_store.dead_letters.rows import DeadLetterFilter
from warrener_store.jobs.rows import FOLLOWS, AttemptOutcome, JobRow


async def check(world: World, accepted: Iterable[UUID], *, may_die: Collection[str] = ()) -> None:
    """Raise AssertionError naming the invariant that is broken; I1 and I6 to I8 are checked at every save.

    `may_die`: job types whose jobs may be dead for reasons of their own."""
    rows = world.store.jobs
    for job_id in accepted:
        assert job_id in rows, f"I5: the confirmed request {job_id} has no job"
    for row in rows.values():
        assert row.state.terminal, f"I5: {row.job_id} is {row.state}"
    # A call that is no job has an end for its parent alone.
    rows = {job_id: row for job_id, row in rows.items() if not (was_rejected(row) or _followed(row))}
    assert not world.workshop.overlaps, f"I3: attempts ran twice at once: {world.workshop.overlaps}"
    assert not world.workshop.rivals, f"I13: two attempts of one job ran at once: {world.workshop.rivals}"
    _check_starts(world, rows)
    _check_published_ends(world, rows)
    _check_effects(world, rows)
    _check_families(world, rows)
    await _check_ends(world, rows, may_die)
    _check_handler_signals(world, rows)


async def check_trees(world: World, cancelled_roots: Iterable[UUID]) -> None:
    """G2: of a tree that was cancelled every job is marked, whenever it came; so none of them grows on."""
    children: dict[UUID, list[UUID]] = {}
    for row in world.store.jobs.values():
        if row.parent_id is not None:
            children.setdefault(row.parent_id, []).append(row.job_id)
    members = list(cancelled_roots)
    for job_id in members:  # grows while it is walked
        members += children.get(job_id, [])
    unmarked = set(members) - (await world.store.cancelled_among(members)).keys()
    assert not unmarked, f"a cancelled tree has grown: {unmarked}"


def _check_starts(world: World, rows: Mapping[UUID, JobRow]) -> None:
    """I14: no handler starts after its job's end.

    A cancel comes from outside, at any moment: its message is on its way to the agents in the same moment.
    """
    late = {
        (job_id, attempt, rows[job_id].state): seconds
        for (job_id, attempt), seconds in world.workshop.late.items()
        if seconds > 0.0 or rows[job_id].state is not JobState.CANCELLED
    }
    assert not late, f"I14: handlers started after their job's end, by seconds: {late}"


def _followed(row: JobRow) -> bool:
    has_ended = not row.attempt and row.state is not JobState.CANCELLED
    return has_ended and (row.ending_reason or "").startswith(FOLLOWS)


_OF_REQUESTERS = {"request_id", "request_source"}


def _check_published_ends(world: World, rows: Mapping[UUID, JobRow]) -> None:
    """G2: each end is published, and one end of each job: to all without results, texts and the request's
    name; and whole to its requesters."""
    published: dict[UUID, set[str]] = {}
    whole: dict[UUID, set[str]] = {}
    for event in world.published:
        if isinstance(event, JobFinished):
            of_all = event.data.model_dump_json(exclude={"result", "error", *_OF_REQUESTERS})
            published.setdefault(event.data.job_id, set()).add(of_all)
            if event.data.request_id is not None:
                whole.setdefault(event.data.job_id, set()).add(event.data.model_dump_json())
    assert published.keys() == rows.keys(), "a job's end was not told"
    for job_id, ends in published.items():
        assert len(ends) == 1, f"I1: two ends of {job_id} were told: {ends}"
    for job_id, replies in whole.items():
        assert len(replies) == 1, f"I1: requesters of {job_id} had two replies: {replies}"


def _check_effects(world: World, rows: Mapping[UUID, JobRow]) -> None:
    """I10, G4: what a handler wrote is there once, if and only if its attempt was recorded."""
    effects = Counter(job_id for job_id, _ in world.ledger.effects)
    for job_id, row in rows.items():
        completed = (entry := world.ledger.entries.get(job_id)) is not None and entry.completion is not None
        expected = 1 if completed and not _has_no_effects(world, row) else 0
        assert effects[job_id] == expected, f"I10: {effects[job_id]} effects of {job_id}"
        if row.state is JobState.SUCCEEDED:
            assert completed, f"I2: {job_id} succeeded, and the ledger does not know"
            assert entry is not None
            assert entry.completion is not None
            assert row.result == entry.completion.result, f"I2: {job_id} has another result than its attempt"


def _has_no_effects(world: World, row: JobRow) -> bool:
    """True if its handler has no effects in the ledger's transaction: a workflow, or one of gathered jobs."""
    definition = world.handlers.definitions.get(row.job_type)
    return definition is not None and (definition.executor == "workflow" or definition.gather is not None)


def _check_families(world: World, rows: Mapping[UUID, JobRow]) -> None:
    """G4: child jobs exist if and only if their parent's completion was recorded."""
    for row in rows.values():
        if row.parent_id is not None and not _has_no_effects(world, rows[row.parent_id]):
            assert world.ledger.entries[row.parent_id].completion is not None
    for job_id, row in rows.items():
        entry = world.ledger.entries.get(job_id)
        if row.job_type == "parent" and entry is not None and entry.completion is not None:
            assert {UUID(child) for child in entry.completion.result} <= rows.keys(), "a child job is missing"


async def _check_ends(world: World, rows: Mapping[UUID, JobRow], may_die: Collection[str]) -> None:
    for row in rows.values():
        match row.job_type, row.state:
            case (("moody" | "signals"), _):
                pass  # they end as they ask: `_check_handler_signals`
            case (("doomed" | "hanging" | "sleepy"), state):
                assert state in (JobState.DEAD, JobState.CANCELLED, JobState.EXPIRED)
            case _, JobState.DEAD if row.job_type not in may_die:
                by_losses = row.losses > row.policy.max_lost_attempts
                assert by_losses or _is_poison(world, row), f"{row.job_type} {row.job_id} died: {row.error}"
            case _:
                pass
    every = DeadLetterFilter(states=(), limit=10_000)
    dead = {one.job_id for one in await world.store.dead_letter_store.list_dead_letters(every)}
    assert dead == {row.job_id for row in rows.values() if row.state is JobState.DEAD}


def _is_poison(world: World, row: JobRow) -> bool:
    """True if the job has used up its deaths, each with an agent that was killed. An attempt that the broker
    gives to the next agent before it is missed dies without a loss."""
    deaths = row.error.crashes if row.error is not None else ()
    killed = [death for death in deaths if any(agent in death for agent in world.killed_agents if agent)]
    return len(killed) == len(deaths) >= row.policy.quarantine_threshold


def _check_handler_signals(world: World, rows: Mapping[UUID, JobRow]) -> None:
    """A handler's word about its own job counts once, and no snooze goes on for ever."""
    for row in rows.values():
        ends = Counter(world.store.ended.get(row.job_id, {}).values())
        assert ends[AttemptOutcome.SNOOZED] <= row.policy.max_snoozes + row.failures, f"{row.job_id} has spun"
        if row.cancel_reason is not None and row.cancel_reason.startswith("by its handler"):
            assert (row.state, ends[AttemptOutcome.CANCELLED]) == (JobState.CANCELLED, 1)


async def check_poison(world: World) -> None:
    """I12, G7: each was parked with its reason, its asker was told where it could be, and nothing loops."""
    parked = {(message.reason, message.body) for message in await world.store.parked(limit=10_000)}
    for reason, body in POISON.items():
        assert reason.value in {why for why, _ in parked}, f"I12: {reason} is not parked: {body!r}"
    assert {why for why, _ in parked} <= {reason.value for reason in POISON}, parked
    rejected = {event.data.reason for event in world.published if isinstance(event, JobRejected)}
    assert POISON.keys() <= rejected
