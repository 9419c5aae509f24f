"""Point 9 of supervision: a redrive stops by itself, goes on whoever is killed, and repeats nothing."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

from tests.acceptance.command_line import run_json, start
from tests.acceptance.test_dead_letters import MODULE, dead_letters, in_store
from tests.acceptance.warren import Warren, until

from warrener_client import JobSpec, SyncClient
from warrener_store.dead_letters.rows import (
    DeadLetterFilter,
    DeadLetterGroup,
    DeadLetterState,
    RedriveRow,
    RedriveState,
)


def bury(warren: Warren, jobs: int) -> str:
    """So many jobs die of one cause; its fingerprint."""
    with SyncClient(warren.broker_url) as client:
        requested = list(
            client.request_many(JobSpec("flights.load", {"number": number}) for number in range(jobs))
        )
    assert len(requested) == jobs

    def buried() -> DeadLetterGroup | None:
        groups = in_store(warren, lambda found: found.group_dead_letters(DeadLetterFilter()))
        return groups[0] if len(groups) == 1 and groups[0].dead_letters == jobs else None

    return until(buried, f"{jobs} dead letters of one cause", within=90).fingerprint


def lines(warren: Warren, file: str) -> Counter[int]:
    """How often each number stands in what the handlers have written."""
    path = Path(warren.folder / file)
    return Counter(map(int, path.read_text().split())) if path.exists() else Counter()


def mend(warren: Warren) -> None:
    (warren.folder / "mended").touch()


def count_unresolved(warren: Warren) -> int:
    return len(dead_letters(warren, DeadLetterFilter(limit=10_000)))


def states(warren: Warren) -> Counter[DeadLetterState]:
    return Counter(
        dead_letter.state for dead_letter in dead_letters(warren, DeadLetterFilter(states=(), limit=10_000))
    )


def test_9_a_redrive_of_1000_stops_after_the_canary_and_goes_on_when_it_is_mended(warren: Warren) -> None:
    warren.start_all(MODULE, slots=50)
    cause = bury(warren, 1000)
    command = ("dead-letters", "redrive", "--fingerprint", cause, "--rate", "200")

    dry = run_json(warren, *command, "--dry-run")
    assert (dry["kind"], dry["state"], dry["counts"]) == ("dry_run", "done", {"claimed": 1000})
    wrong = run_json(warren, *command, "--set", 'number="seven"', code=4)
    assert wrong["state"] == "stopped"
    assert "arguments.number: expected integer" in wrong["stop_reason"]
    assert lines(warren, "tried").total() == 1000, "nothing was asked for by then"

    result = run_json(warren, *command, "--reason", "perhaps it is mended", code=4)
    assert result["state"] == "stopped"
    assert result["stop_reason"].startswith("the same failure is back")
    redrive = UUID(result["redrive_id"])
    over = until_it_is(warren, redrive, RedriveState.STOPPED)
    assert over.counts == {"died_again": 10}
    assert [entry.action.partition(":")[0] for entry in over.journal] == ["requested", "stopped"]
    assert lines(warren, "tried").total() == 1010, "the canary and nothing else"
    assert states(warren)[DeadLetterState.DIED_AGAIN] == 10
    assert count_unresolved(warren) == 1000, (
        "the others are free, and those of the canary have dead letters again"
    )

    mend(warren)
    run_json(warren, "dead-letters", "resume", str(redrive)[-8:], "--reason", "mended")
    done = until_it_is(warren, redrive, RedriveState.DONE)
    assert done.counts == {"died_again": 10, "succeeded": 1000}, "with the heirs of the canary"
    assert lines(warren, "loaded") == dict.fromkeys(range(1000), 1), "each once"


def redrive_of(warren: Warren, redrive: UUID) -> RedriveRow:
    (row,) = in_store(warren, lambda found: found.redrives([redrive]))
    return row


def until_it_is(warren: Warren, redrive: UUID, state: RedriveState) -> RedriveRow:
    """Until it has come to this state and nothing is left to do."""

    def over() -> RedriveRow | None:
        row = redrive_of(warren, redrive)
        return row if row.state is state and row.finished_at else None

    return until(over, f"the redrive to be {state.value}", within=120)


def test_9_a_redrive_goes_on_when_command_scheduler_and_supervisor_are_killed(warren: Warren) -> None:
    scheduler, supervisor = warren.start("scheduler"), warren.start("supervisor")
    warren.start("agent", MODULE, "--slots", "50")
    warren.wait_ready()
    cause = bury(warren, 300)
    mend(warren)
    words: Sequence[str] = ("dead-letters", "redrive", "--fingerprint", cause, "--rate", "40")
    with start(warren, *words) as command:
        row = until(lambda: rolling(warren, 30), "the redrive to be rolling")
        command.kill()
    scheduler.kill()
    supervisor.kill()
    warren.start("scheduler")
    warren.start("supervisor")
    until(lambda: rolling(warren, 120), "the redrive to go on", within=90)
    warren.services[-2].kill()
    warren.start("scheduler")
    done = until_it_is(warren, row.redrive_id, RedriveState.DONE)
    assert done.counts == {"succeeded": 300}
    assert lines(warren, "loaded") == dict.fromkeys(range(300), 1), "each once"
    assert states(warren) == {DeadLetterState.SUCCEEDED: 300}
    again = {
        dead_letter.redriven_as
        for dead_letter in dead_letters(warren, DeadLetterFilter(states=(), limit=10_000))
    }
    assert len(again) == 300
    assert {entry.by for entry in done.journal} == {done.requested_by, "warrener/scheduler"}


def rolling(warren: Warren, requested: int) -> RedriveRow | None:
    """The redrive, if it has asked for so many; on a machine that stops for long it may be over by then."""
    rows = in_store(warren, lambda found: found.redrives())
    reached = sum(rows[0].counts.get(state, 0) for state in ("redriven", "succeeded")) if rows else 0
    begun = rows and rows[0].state in {RedriveState.ROLLING, RedriveState.DONE}
    return rows[0] if begun and reached >= requested else None
