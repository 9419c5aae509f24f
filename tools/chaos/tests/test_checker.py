"""The checker of chaos runs finds each violation, and nothing in a good history."""

from dataclasses import replace

import pytest
from tools.chaos.checker import KINDS, Violation, check, summary
from tools.chaos.effects import Record, What
from tools.chaos.history import (
    Destroyed,
    Ending,
    Freeze,
    History,
    JobFact,
    Request,
    Schedule,
    Tick,
    TransactionalEffect,
    Unmended,
)

SCHEDULE = Schedule("every-two", every=2.0, first=100.0, last=106.0)


def run(
    job: str, *whats: tuple[float, What], name: str | None = None, attempt: int = 1, pid: int = 7
) -> list[Record]:
    """The records of one execution."""
    return [Record(at, what, name or f"{job}-run", job, attempt, pid, job) for at, what in whats]


def succeeded(
    job: str, job_type: str = "chaos.short", *, parent: str | None = None, schedule: str | None = None
) -> JobFact:
    return JobFact(job, job_type, "succeeded", 1, f"{job}-run", parent, schedule)


def done(job: str, at: float) -> list[Record]:
    return run(job, (at, "start"), (at + 0.05, "work"), (at + 0.1, "done"))


PARTS = {"o": ("reserve", "charge", "ship"), "u": ("reserve", "charge", "refund", "release")}
"""The child jobs of two orders: one is shipped, the other undone."""
EFFECTS = [f"{one} {of}" for of, parts in PARTS.items() for one in parts]


def part(effect: str, order: str) -> JobFact:
    """A child job of an order."""
    fact = succeeded(f"{effect} {order}", f"chaos.{effect}", parent=order)
    return replace(fact, arguments=f'{{"order": "{order}"}}')


GOOD = History(
    requests=[
        Request("a", "chaos.short", 1.0, "succeeded", watched=True),
        Request("b", "chaos.book", 1.0, "succeeded", children=1),
        Request("h", "chaos.hopeless", 1.0, "dead"),
        Request("c", "chaos.long", 1.0, "any"),
        Request("d", "chaos.short", 1.0, "succeeded", not_before=5.0),
        Request("o", "chaos.order", 1.0, "succeeded", signals=2),
        Request("u", "chaos.order", 1.0, "dead"),
    ],
    jobs={
        "a": succeeded("a"),
        "b": succeeded("b", "chaos.book"),
        "b1": succeeded("b1", "chaos.child", parent="b"),
        "h": JobFact("h", "chaos.hopeless", "dead", 2, None),
        "c": JobFact("c", "chaos.long", "cancelled", 1, None),
        "d": succeeded("d"),
        "t": succeeded("t", "chaos.tick", schedule="every-two"),
        "o": JobFact("o", "chaos.order", "succeeded", 5, "[0, 1]"),
        "u": JobFact("u", "chaos.order", "dead", 3, None),
        **{name: part(*name.split()) for name in EFFECTS},
    },
    endings=[
        *(Ending(job, "running", "succeeded", 9.0) for job in ("a", "b", "b1", "d")),
        Ending("t", "running", "succeeded", 103.0),
    ],
    records=[
        *done("a", 2.0),
        *done("b", 2.0),
        *done("b1", 3.0),
        *run("h", (2.0, "start"), (2.1, "failed")),
        *done("d", 5.0),
        *done("t", 102.0),
        *(record for name in EFFECTS for record in done(name, 3.0)),
    ],
    effects=[
        TransactionalEffect("b", "b-run"),
        *(TransactionalEffect(name, f"{name}-run", name) for name in EFFECTS),
    ],
    ticks=[
        Tick("every-two", 100.0, "skipped", None),
        Tick("every-two", 102.0, "fired", "t"),
        Tick("every-two", 104.0, "coalesced", None),
        Tick("every-two", 106.0, "skipped", None),
    ],
    schedules=[SCHEDULE],
    answers={"a": "succeeded"},
    left_in_queues={"warrener.requests": 0},
)


def found(history: History) -> list[str]:
    return sorted({violation.kind for violation in check(history)})


def job(name: str, state: str, result: str | None = None) -> dict[str, JobFact]:
    """The good rows with one of them changed."""
    return {**GOOD.jobs, name: replace(GOOD.jobs[name], state=state, result=result)}


def without(name: str) -> dict[str, JobFact]:
    return {key: fact for key, fact in GOOD.jobs.items() if key != name}


TWICE = [*done("a", 2.0), *run("a", (2.05, "start"), (2.2, "done"), name="other", attempt=2, pid=8)]

BAD: dict[str, History] = {
    "lost": replace(GOOD, jobs=without("a")),
    "stuck": replace(GOOD, jobs=job("a", "queued")),
    "wrong end": replace(GOOD, jobs=job("a", "dead"), answers={"a": "dead"}),
    "ended twice": replace(GOOD, endings=[*GOOD.endings, Ending("a", "succeeded", "dead", 10.0)]),
    "effects twice": replace(GOOD, effects=[*GOOD.effects, TransactionalEffect("b", "b-run-2")]),
    "effect missing": replace(GOOD, effects=[]),
    "two at once": replace(GOOD, records=[*TWICE, *GOOD.records[3:]]),
    "start after end": replace(
        GOOD, records=[*GOOD.records, *run("a", (15.0, "start"), name="other", attempt=2, pid=8)]
    ),
    "unknown result": replace(GOOD, jobs=job("a", "succeeded", "nobody's")),
    "key changed": replace(GOOD, records=[*GOOD.records, Record(3.0, "start", "x", "a", 2, 7, "another")]),
    "child missing": replace(GOOD, jobs=without("b1")),
    "early": replace(GOOD, records=[record for record in GOOD.records if record.job != "d"] + done("d", 4.0)),
    "tick missing": replace(GOOD, ticks=[GOOD.ticks[0], *GOOD.ticks[2:], Tick("other", 1.0, "fired", "t")]),
    "tick twice": replace(GOOD, ticks=[*GOOD.ticks[:3], Tick("every-two", 106.0, "fired", "t")]),
    "answer missing": replace(GOOD, answers={}),
    "answer wrong": replace(GOOD, answers={"a": "dead"}),
    "piece not mended": replace(GOOD, unmended=[Unmended("queue warrener.logs", 5.0)]),
    "called twice": replace(
        GOOD, jobs={**GOOD.jobs, "again": replace(part("ship", "o"), job="again", state="cancelled")}
    ),
    "half an order": replace(
        GOOD, jobs=without("refund u"), effects=[one for one in GOOD.effects if one.note != "refund u"]
    ),
    "signals wrong": replace(GOOD, jobs=job("o", "succeeded", "[0]")),
    "left in queue": replace(GOOD, left_in_queues={"warrener.requests": 3}),
}


def test_a_good_history_has_no_violation() -> None:
    assert check(GOOD) == []


def test_there_is_a_bad_history_for_each_kind_of_violation() -> None:
    assert sorted(BAD) == sorted(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_it_finds_each_violation(kind: str) -> None:
    assert kind in found(BAD[kind])


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"key changed", "tick twice", "effect missing"}))
def test_it_finds_nothing_else(kind: str) -> None:
    assert found(BAD[kind]) == [kind]


def test_an_effect_of_two_jobs_is_found_and_an_order_that_was_undone_although_it_was_shipped() -> None:
    twice = [*GOOD.effects, TransactionalEffect("c", "c-run", "charge o")]
    assert found(replace(GOOD, effects=twice)) == ["called twice"]
    undone = [*GOOD.effects, TransactionalEffect("c", "c-run", "refund o")]
    assert found(replace(GOOD, effects=undone)) == ["half an order"]


def test_a_workflow_may_be_cancelled_where_an_operator_destroyed_requests_of_its_children() -> None:
    cancelled = replace(GOOD, jobs=job("u", "cancelled"))
    assert found(cancelled) == ["wrong end"]
    assert found(replace(cancelled, destroyed=[Destroyed(2.0, 3.0)])) == []


def test_an_effect_of_a_job_that_died_is_a_wrong_end() -> None:
    effects = [*GOOD.effects, TransactionalEffect("h", "h-run")]
    assert found(replace(GOOD, effects=effects)) == ["wrong end"]


def test_a_job_of_a_schedule_that_no_tick_accounts_for_is_found() -> None:
    jobs = {**GOOD.jobs, "v": succeeded("v", "chaos.tick", schedule="every-two")}
    assert found(replace(GOOD, jobs=jobs, records=[*GOOD.records, *done("v", 104.0)])) == ["tick twice"]


def test_a_frozen_handler_and_its_successor_are_not_two_at_once() -> None:
    frozen = run("a", (2.0, "start"), (9.0, "stopped"), name="first", pid=3)
    between = replace(GOOD, records=[*frozen, *done("a", 5.0), *GOOD.records[3:]])
    assert found(between) == [], "it was cancelled as it woke, and did nothing"

    worked = run("a", (2.0, "start"), (5.07, "work"), (9.0, "stopped"), name="first", pid=3)
    freeze = Freeze(frozenset({3}), 2.1, 5.06)
    awake = replace(GOOD, records=[*worked, *done("a", 5.0), *GOOD.records[3:]], freezes=[freeze])
    assert found(awake) == ["two at once"], "it woke, and worked on beside its successor"

    later = replace(freeze, ended=5.06)
    after = run("a", (2.0, "start"), (5.2, "work"), (9.0, "stopped"), name="first", pid=3)
    slept = replace(later, ended=5.15)
    over = replace(GOOD, records=[*after, *done("a", 5.0), *GOOD.records[3:]], freezes=[slept])
    assert found(over) == [], "it woke when its successor was over"


def test_a_claim_just_before_the_end_may_still_start_and_a_frozen_agent_when_it_wakes() -> None:
    cancelled = replace(GOOD, endings=[*GOOD.endings, Ending("c", "queued", "cancelled", 9.0)])
    claimed = run("c", (10.0, "start"), (10.1, "stopped"), pid=3)
    assert found(replace(cancelled, records=[*GOOD.records, *claimed])) == []

    woken = replace(cancelled, records=[*GOOD.records, *run("c", (40.0, "start"), pid=3)])
    assert found(woken) == ["start after end"]
    assert found(replace(woken, freezes=[Freeze(frozenset({3}), 8.0, 39.5)])) == []


def test_a_child_whose_request_an_operator_destroyed_is_not_missing() -> None:
    purged = replace(GOOD, jobs=without("b1"), destroyed=[Destroyed(8.0, 9.5)])
    assert found(purged) == []
    assert found(replace(purged, destroyed=[Destroyed(20.0, 21.0)])) == ["child missing"]


def test_a_handler_that_blocks_its_agent_is_no_exception() -> None:
    jobs = {**GOOD.jobs, "a": replace(GOOD.jobs["a"], job_type="chaos.block")}
    history = replace(GOOD, jobs=jobs, records=[*TWICE, *GOOD.records[3:]])
    assert found(history) == ["two at once"]


def test_an_interrupted_run_is_not_judged_for_what_was_not_over() -> None:
    unfinished = replace(
        GOOD,
        jobs=without("a"),
        answers={},
        schedules=[replace(SCHEDULE, last=200.0)],
        left_in_queues={"warrener.status": 9},
        settled=False,
    )
    assert check(unfinished) == []
    assert found(replace(unfinished, endings=[*GOOD.endings, Ending("b", "dead", "dead", 1.0)])) == [
        "ended twice"
    ]


def test_the_summary_names_every_kind() -> None:
    counted = summary([Violation("lost", "a", ""), Violation("lost", "b", "")])
    assert counted == {kind: 2 if kind == "lost" else 0 for kind in KINDS}
