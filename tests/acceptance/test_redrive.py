"""Point 9 of supervision: a redrive goes on if any of its services is killed, and repeats nothing.

What a dead letter stores and how causes are grouped, stands in `tests/conformance/test_dead_letters.py` and
`services/supervisor/tests/test_dead_letters.py`; canaries, edits and drops in
`services/scheduler/tests/test_redrive.py`.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from tests.acceptance.command_line import start
from tests.acceptance.store_queries import look
from tests.acceptance.warren import Warren, until

from warrener_client import JobSpec, SyncClient
from warrener_store.dead_letters.rows import (
    DeadLetterFilter,
    DeadLetterGroup,
    DeadLetterState,
    RedriveRow,
    RedriveState,
)
from warrener_store.dead_letters.store import DeadLetterStore

T = TypeVar("T")
MODULE = "tests.acceptance.dead_handlers"


def in_store(warren: Warren, question: Callable[[DeadLetterStore], Awaitable[T]]) -> T:
    """What the store answers: a command of its own for each look would keep the machine busy."""
    return look(warren, lambda store: question(store.dead_letter_store))


def bury(warren: Warren, jobs: int) -> str:
    """So many jobs die of one cause; its fingerprint."""
    with SyncClient(warren.broker_url) as client:
        specs = (JobSpec("flights.load", {"number": number}) for number in range(jobs))
        assert len(list(client.request_many(specs))) == jobs

    def buried() -> DeadLetterGroup | None:
        groups = in_store(warren, lambda found: found.group_dead_letters(DeadLetterFilter()))
        return groups[0] if len(groups) == 1 and groups[0].dead_letters == jobs else None

    return until(buried, f"{jobs} dead letters of one cause", within=90).fingerprint


def test_9_a_redrive_goes_on_when_command_scheduler_and_supervisor_are_killed(warren: Warren) -> None:
    scheduler, supervisor = warren.start("scheduler"), warren.start("supervisor")
    warren.start("agent", MODULE, "--slots", "50")
    warren.wait_ready()
    cause = bury(warren, 300)
    (warren.folder / "mended").touch()
    words = ("dead-letters", "redrive", "--fingerprint", cause, "--rate", "40")
    with start(warren, *words) as command:
        until(lambda: rolling(warren, 30), "the redrive to be rolling")
        command.kill()
    scheduler.kill()
    supervisor.kill()
    warren.start("scheduler")
    warren.start("supervisor")
    until(lambda: rolling(warren, 120), "the redrive to go on", within=90)
    warren.services[-2].kill()
    warren.start("scheduler")

    def over() -> RedriveRow | None:
        """The redrive once nothing is left to do."""
        (row,) = in_store(warren, lambda found: found.redrives())
        return row if row.state is RedriveState.DONE and row.finished_at else None

    done = until(over, "the redrive to be done", within=120)
    assert done.counts == {"succeeded": 300}
    assert sorted(map(int, warren.lines("loaded"))) == list(range(300)), "each once"
    which = DeadLetterFilter(states=(), limit=10_000)
    dead_letters = in_store(warren, lambda found: found.list_dead_letters(which))
    assert {one.state for one in dead_letters} == {DeadLetterState.SUCCEEDED}
    assert len(dead_letters) == len({one.redriven_as for one in dead_letters}) == 300
    assert {entry.by for entry in done.journal} == {done.requested_by, "warrener/scheduler"}


def rolling(warren: Warren, requested: int) -> RedriveRow | None:
    """The redrive, if it has asked for so many; on a machine that stops for long it may be over by then."""
    rows = in_store(warren, lambda found: found.redrives())
    reached = sum(rows[0].counts.get(state, 0) for state in ("redriven", "succeeded")) if rows else 0
    begun = rows and rows[0].state in {RedriveState.ROLLING, RedriveState.DONE}
    return rows[0] if begun and reached >= requested else None
