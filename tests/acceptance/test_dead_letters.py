"""Point 9 of supervision: dead letters are kept with everything needed to understand them, by cause."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from tests.acceptance.command_line import run_command, run_json
from tests.acceptance.store_queries import look, rows_of
from tests.acceptance.warren import Warren, until

from warrener_client import SyncClient
from warrener_contracts.state_machine import JobState
from warrener_store.dead_letters.port import DeadLetterStore
from warrener_store.dead_letters.rows import DeadLetter, DeadLetterFilter

T = TypeVar("T")
MODULE = "tests.acceptance.dead_handlers"


def test_9_dead_letters_are_grouped_by_cause_shown_whole_and_dropped_with_a_reason(warren: Warren) -> None:
    warren.start_all(MODULE)
    with SyncClient(warren.broker_url) as client:
        loads = [client.request("flights.load", {"number": number}) for number in range(5)]
        sends = [client.request("flights.send", {"to": f"host-{number}.example"}) for number in range(3)]
    ids = [job.job_id for job in (*loads, *sends)]

    def all_dead() -> bool:
        rows = rows_of(warren, ids)
        return len(rows) == len(ids) and all(row.state is JobState.DEAD for row in rows.values())

    until(all_dead, "eight jobs to be dead")

    causes = run_json(warren, "dead-letters", "list", "--group-by", "fingerprint")
    groups = {group["job_type"]: group for group in causes}
    assert {name: group["dead_letters"] for name, group in groups.items()} == {
        "flights.load": 5,
        "flights.send": 3,
    }
    load = groups["flights.load"]
    assert load["first_died_at"] <= load["last_died_at"] == load["example"]["died_at"]
    assert load["example"]["error"]["type"].endswith("WrongForm")
    assert load["fingerprint"] != groups["flights.send"]["fingerprint"]

    page = run_json(warren, "dead-letters", "show", str(sends[1].job_id))
    assert page["arguments"] == {"to": "host-1.example"}
    assert [each["error"]["message"] for each in page["attempts_made"]] == [
        "no answer from host-1.example"
    ] * 2
    assert all("in send" in each["error"]["stack"] for each in page["attempts_made"])
    assert (page["reason"], page["state"]) == ("its 2 attempts are used up", "open")
    assert page["policy"]["max_attempts"] == 2
    assert "dead-letters redrive" in page["next"]
    shown = run_command(warren, "dead-letters", "show", str(sends[1].job_id)[-8:])
    assert all(
        word in shown for word in ("host-1.example", "attempt 1", "attempt 2", "the stack of attempt 1")
    )

    cause = groups["flights.send"]["fingerprint"]
    drop = run_json(
        warren, "dead-letters", "drop", "--fingerprint", cause, "--reason", "the hosts are gone", "--yes"
    )
    assert (drop["state"], drop["counts"]) == ("done", {"dropped": 3})
    assert {dead_letter.job_type for dead_letter in dead_letters(warren, DeadLetterFilter())} == {
        "flights.load"
    }
    dropped = dead_letters(warren, DeadLetterFilter(states=(), fingerprint=cause))
    assert {dead_letter.note for dead_letter in dropped} == {
        f"dropped by {drop['requested_by']}: the hosts are gone"
    }
    (redrive,) = in_store(warren, lambda found: found.redrives())
    assert (redrive.kind.value, redrive.reason, redrive.journal[0].by) == (
        "drop",
        "the hosts are gone",
        drop["requested_by"],
    )


def dead_letters(warren: Warren, which: DeadLetterFilter) -> list[DeadLetter]:
    return in_store(warren, lambda found: found.list_dead_letters(which))


def in_store(warren: Warren, question: Callable[[DeadLetterStore], Awaitable[T]]) -> T:
    """What the store answers: a command of its own for each look would keep the machine busy."""
    return look(warren, lambda store: question(store.dead_letter_store))
