"""What is explained for each cause: the pure decisions, from facts."""

from dataclasses import replace
from datetime import timedelta

import pytest
from services.console.tests.explanations.example_facts import (
    CHILD,
    ENDING,
    JOB,
    agent,
    breaker,
    dead,
    ended,
    job_facts,
    job_type,
    limit,
    queue,
    queued,
    queued_in,
    retrying,
    running,
    silent,
    suspended,
    system,
    unseen,
    waiting,
)
from services.console.tests.explanations.explained import CASES, PAGE, explained, updated
from tests.store_rows import NOON, after, attempt_of

from warrener.explanations import explain
from warrener.explanations.causes import Cause, StepStatus
from warrener.explanations.facts import (
    AgentSubject,
    JobFacts,
    QueueFacts,
    QueueSubject,
    Subject,
    TypeSubject,
    attempts_text,
)
from warrener_contracts.events import CallKind, ErrorInfo, ErrorKind
from warrener_contracts.identity import undo_job_id
from warrener_contracts.journals import SentSignal
from warrener_contracts.policy import JobPolicy, RetryRule
from warrener_contracts.state_machine import JobState
from warrener_contracts.unique import Unique
from warrener_store.jobs.rows import AttemptOutcome
from warrener_store.jobs.unique import UniqueKeyRow

GONE = system(queues=queue(waiting=1), agents=(silent(),), ending_jobs={"default": ENDING})


@pytest.mark.parametrize("when", CASES)
def test_each_cause_comes_with_its_remedy(when: str) -> None:
    found = explained(when)
    assert found.sentence[0].isupper()
    assert found.next or not found.needs_action
    *before, last = found.steps
    assert not last.detail, "the sentence says it"
    assert last.status is not StepStatus.UNKNOWN
    assert not any(step.status in (StepStatus.BLOCKED, StepStatus.WAITING) for step in before)
    assert bool(found.commands) is found.needs_action, "a command to run where there is something to do"
    assert found.since is not None
    assert found.since <= NOON
    commands = {one.command or "" for one in found.suggestions} - {f"warrener cancel {ENDING.job_id}"}
    for word in ("cancel", "kill", "prune", "drop", "delete", "remove", "close"):
        assert not any(word in command for command in commands), "nothing else that destroys"


def test_the_page_lists_each_cause_as_it_is_explained_today() -> None:
    assert {explained(when).cause for when in CASES} == set(Cause)
    states = {
        (case.row.state, explained(when).state) for when, case in CASES.items() if isinstance(case, JobFacts)
    }
    assert states == {(state, state.value) for state in JobState}
    page = PAGE.read_text(encoding="utf-8")
    assert updated(page) == page, "run python -m services.console.tests.explanations.explained"


def test_the_steps_follow_a_job_from_its_request_to_its_agent() -> None:
    found = explain(job_facts(queued()))
    assert [step.name for step in found.steps] == ["request", "dispatch", "agents", "queue"]


NO_SUPERVISOR = system(supervisors=0, agents=(silent(),))


@pytest.mark.parametrize(
    ("facts", "cause"),
    [
        # A delay is the cause while it lasts; the missing scheduler is, once it is over.
        (job_facts(waiting(due_at=after(60)), system(schedulers=0)), Cause.DELAYED),
        (unseen(system(store_trouble="database is locked")), Cause.STORE_NOT_WRITABLE),
        # Without a supervisor, silence of agents proves nothing.
        (job_facts(queued(), NO_SUPERVISOR), Cause.IN_QUEUE),
        (job_facts(queued(), replace(NO_SUPERVISOR, queues=queue(waiting=1))), Cause.SUPERVISOR_DOWN),
        # Agents of an earlier version count as knowing every type.
        (queued_in(agents=(agent(job_types=None, free_slots=None, running=3),)), Cause.IN_QUEUE),
        (queued_in(agents=(agent(job_types=None, free_slots=None, running=4),)), Cause.SLOTS_FULL),
    ],
)
def test_the_first_obstacle_that_is_certain_is_the_cause(facts: Subject, cause: Cause) -> None:
    assert explain(facts).cause is cause


def test_only_slots_of_agents_that_know_the_type_count() -> None:
    mixed = (agent(free_slots={"default": 0}), agent(agent_id="other", job_types=("flights.list",)))
    found = explain(queued_in(agents=mixed))
    assert found.cause is Cause.SLOTS_FULL
    assert "loader-7c9f" in found.sentence


def test_slots_without_an_attempt_are_held_by_handlers_that_could_not_be_stopped() -> None:
    stuck = agent(free_slots={"default": 0}, running=1)
    found = explain(queued_in(agents=(stuck,)))
    assert found.cause is Cause.SLOTS_FULL
    assert found.notes[0].startswith("3 of the slots have no running attempt: a handler that could not be")


def test_a_broker_that_was_not_queried_is_unknown_and_not_healthy() -> None:
    unknown = system(schedulers=None, supervisors=None, queues={})
    found = explain(job_facts(queued(), unknown))
    assert found.cause is Cause.IN_QUEUE
    assert {step.name for step in found.steps if step.status is StepStatus.UNKNOWN} == {"queue"}


def test_bindings_that_could_not_be_compared_are_noted_and_the_walk_goes_on() -> None:
    unknown = system(bindings_unknown="nothing answers at http://localhost:15672", queues=queue(consumers=1))
    found = explain(job_facts(queued(dispatched_at=None), unknown, refusing_since=after(-60)))
    assert found.cause is Cause.QUEUE_REFUSES
    assert "bindings were not compared: nothing answers at http://localhost:15672" in found.notes


def test_a_queued_job_notes_skewed_clocks_its_deadline_and_its_start_timeout() -> None:
    late = queued(deadline_at=after(60), policy=JobPolicy(start_timeout=timedelta(minutes=1)))
    assert explain(job_facts(late, system(machine_ahead=timedelta(seconds=90)))).notes == (
        "this machine's clock is 1 min 30 s ahead of the store's, which services use",
        "it expires in 1 min",
        "it waits longer than its start_timeout of 1 min",
    )


def test_the_step_after_a_failure_depends_on_the_attempts_that_are_left() -> None:
    last = explain(job_facts(running(policy=JobPolicy(max_attempts=1))))
    assert last.next.startswith("If it fails, the job is dead")
    uncharged = explain(job_facts(retrying(attempt=4, failures=0)))
    assert uncharged.next == "With 0 of at most 5 failures so far, attempt 4 begins"


def test_attempts_beyond_the_limit_are_put_in_words() -> None:
    assert attempts_text(JobState.RUNNING, 1, 0, 0, 5) == "1 of 5"
    assert attempts_text(JobState.RETRYING, 3, 2, 0, 5) == "2 of 5"
    assert attempts_text(JobState.DEAD, 8, 5, 3, 5) == "8, of which 5 of at most 5 failed and 3 were lost"
    turns = attempts_text(JobState.SUSPENDED, 3, 0, 0, 5, turns=True)
    assert turns == "3 turns, of which 0 of at most 5 failed"
    assert attempts_text(JobState.DEAD, 4, 0, 4, 5, noun="attempt") == "4 attempts, of which 4 were lost"


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (ErrorKind.LOST, "Attempt 1 was lost with its agent"),
        (ErrorKind.CRASH, "Attempt 1 ended its process"),
        (ErrorKind.TIMEOUT, "Attempt 1 ran into its timeout"),
        (ErrorKind.ERROR, "Attempt 1 failed with KeyError"),
    ],
)
def test_a_retry_follows_an_end_of_any_kind(kind: ErrorKind, expected: str) -> None:
    error = ErrorInfo(kind=kind, type="KeyError", message="'day'")
    found = explain(job_facts(retrying(error=error)))
    assert (found.sentence, found.detail) == (expected, "'day'")


def test_what_a_retry_rule_has_chosen_is_noted_and_its_queue_needs_an_agent() -> None:
    policy = JobPolicy(retry_rules=(RetryRule(errors=["memory"], after=2, queue="high-memory"),))
    known = {"flights.load": job_type(policy=policy)}
    waits = queued(attempt=3, queue="high-memory", policy=policy)
    why = "attempt 3 goes from queue default to high-memory: 2 failures (memory)"
    moved = attempt_of(waits, AttemptOutcome.FAILED)
    moved = replace(moved, attempt=2, verdict=f"retry at {NOON.isoformat()}: by a rule, {why}")
    at_broker = {"high-memory": QueueFacts(waiting=1, consumers=0, unbound=())}
    found = explain(job_facts(waits, system(job_types=known, queues=at_broker), attempts=(moved,)))
    assert (found.cause, found.notes) == (Cause.NO_AGENT, (why,))

    unserved = explain(TypeSubject(system=system(job_types=known), row=known["flights.load"]))
    assert unserved.cause is Cause.TYPE_SERVED
    assert unserved.notes == ("a retry rule sends attempts to queue high-memory, which no agent serves",)
    both = system(job_types=known, agents=(agent(), agent(agent_id="large", queues=("high-memory",))))
    assert explain(TypeSubject(system=both, row=known["flights.load"])).notes == ()


def test_a_breaker_holds_a_retry_that_is_due() -> None:
    found = explain(job_facts(retrying(due_at=after(-5)), system(breakers=breaker(until=None))))
    assert found.cause is Cause.BREAKER_OPEN
    assert "breaker.close" in {one.verb for one in found.suggestions}, "a button; no command"


def test_a_job_that_has_ended_its_agents_is_offered_no_further_one() -> None:
    gone = replace(GONE, ending_jobs={})
    killed = ErrorInfo(kind=ErrorKind.CRASH, type="Killed", message="by SIGKILL", crashes=("attempt 1",) * 2)
    assert explain(job_facts(queued(error=killed), gone)).commands == [f"warrener job {JOB}"]
    found = explain(job_facts(queued(losses=2), gone))
    assert found.commands == [f"warrener job {JOB}"]
    assert "2 of its attempts were lost with their agents: another agent may end too" in found.notes


def test_a_workflow_whose_child_job_has_ended_waits_for_its_next_turn_and_for_no_job() -> None:
    over = replace(ended(JobState.SUCCEEDED, job_type="cards.charge"), job_id=CHILD)
    facts = replace(suspended(CallKind.JOB, CallKind.SIGNAL, child=over), awaited=None)
    found = explain(facts)
    assert (found.cause, found.since) == (Cause.SUPERVISOR_STALLED, over.finished_at)
    unknown = explain(suspended(CallKind.JOB))
    assert (unknown.cause, unknown.detail) == (Cause.CALL_AWAITED, "its request is not accepted yet")


def test_calls_that_were_undone_or_never_ran_are_left_out_of_what_a_workflow_undoes() -> None:
    row = {"ending": JobState.CANCELLED, "wake_at": after(-1)}
    never_ran = replace(ended(JobState.DEAD, job_type="cards.charge", attempt=0), job_id=CHILD)
    undone = replace(ended(JobState.SUCCEEDED, job_type="cards.refund"), job_id=undo_job_id(JOB, "job#1"))
    for job in (never_ran, undone):
        found = explain(replace(suspended(CallKind.JOB, row=row, child=job), awaited=None))
        assert found.sentence == "The end of the workflow is due"
    awaited = explain(replace(suspended(CallKind.JOB, row=row), awaited=None))
    assert awaited.sentence.startswith("The workflow ends as cancelled, and waits for cards.refund")


UNDO = undo_job_id(JOB, "job#1")


@pytest.mark.parametrize("state", [JobState.CANCELLED, JobState.EXPIRED, JobState.DEAD])
def test_a_failed_undo_is_the_cause_of_any_end_until_its_dead_letter_is_settled(state: JobState) -> None:
    end = {"state": state, "finished_at": after(-60), "wake_at": None}
    failed = replace(dead(5, job_type="cards.refund"), job_id=UNDO)
    facts = suspended(CallKind.JOB, row=end, child=failed)
    found = explain(facts)
    assert (found.cause, found.needs_action, found.steps[-1].status) == (
        Cause.UNDO_FAILED,
        True,
        StepStatus.BLOCKED,
    )
    assert found.sentence.endswith("; cards.charge, called at orders.py:41 could not be undone")
    assert found.detail == f"cards.refund, job {UNDO}, is dead: Timeout: no answer within 30 s"
    assert found.commands[0] == f"warrener dead-letters redrive {UNDO}"
    assert explain(replace(facts, settled=frozenset({UNDO}))).cause is not Cause.UNDO_FAILED
    undone = replace(ended(JobState.SUCCEEDED), job_id=UNDO)
    steps = explain(suspended(CallKind.JOB, row=end, child=undone)).steps
    assert "undone: cards.charge" in [step.detail for step in steps]


def test_signals_that_no_call_awaits_are_noted() -> None:
    sent = [SentSignal(name, name, after(-60)) for name in ("packed", "pakced")]
    found = explain(replace(suspended(CallKind.SIGNAL), signals=tuple(sent)))
    assert found.notes == ("signal pakced, received 1 min ago, is not awaited",)
    assert found.next == f"Its next turn begins with `{found.suggestions[0].command}`"


@pytest.mark.parametrize(
    "facts",
    [
        *(job_facts(queued(losses=losses), GONE) for losses in (0, 1)),
        job_facts(running(), GONE),
        QueueSubject(system=GONE, name="default"),
        AgentSubject(system=GONE, row=silent()),
        TypeSubject(system=GONE, row=job_type()),
    ],
)
def test_what_misses_an_agent_names_the_job_that_ends_them(facts: Subject) -> None:
    found = explain(facts)
    assert found.cause in (Cause.AGENT_GONE, Cause.AGENT_LOST)
    assert found.notes[-1] == f"job {ENDING.job_id} (billing.charge) has ended 2 agents of queue default"
    *_, look, cancel = (one.command for one in found.suggestions)
    assert (look, cancel) == (f"warrener job {ENDING.job_id}", f"warrener cancel {ENDING.job_id}")


def test_the_job_that_ends_agents_is_not_named_to_itself_nor_where_agents_are_alive() -> None:
    itself = explain(JobFacts(system=GONE, row=ENDING))
    well = explain(queued_in(ending_jobs=GONE.ending_jobs))
    assert not any("of queue default" in note for note in (*itself.notes, *well.notes))


def test_a_time_of_another_clock_is_no_time_of_the_future() -> None:
    ahead = explain(job_facts(waiting(requested_at=after(3300), accepted_at=after(60), due_at=after(3900))))
    assert ahead.since == NOON


def test_a_limit_that_only_workflows_above_the_job_have_taken_needs_somebody() -> None:
    """Each of them frees its slot at its end, which waits for the job."""
    stuck = explain(job_facts(waiting(), limit=limit(slots=1, before=0, above=(CHILD,))))
    assert (stuck.cause, stuck.needs_action) == (Cause.LIMIT, True)
    assert stuck.notes == (f"workflow {CHILD} above it has a slot until it ends, and waits for this job",)
    moves = explain(job_facts(waiting(), limit=limit(slots=2, above=(CHILD,))))
    assert (moves.needs_action, moves.notes) == (False, stuck.notes)


def test_a_unique_job_names_those_that_it_has_replaced_and_the_answer_to_the_next_request() -> None:
    policy = JobPolicy(unique=Unique(repeat="replace"))
    key = UniqueKeyRow("flights.load/{}", JOB, CHILD, CHILD, after(-60))
    found = explain(job_facts(waiting(policy=policy, due_at=after(600)), unique_key=key))
    assert found.notes == (
        f"unique: it has replaced job {CHILD}; the first one came 1 min ago; "
        "a further request replaces this job while it waits, and is rejected afterwards",
    )
    begun = explain(job_facts(queued(policy=policy), unique_key=key._replace(replaced=None)))
    assert begun.notes == (), "a further request makes a job of its own"


def test_a_replaced_job_leads_to_the_one_that_replaced_it() -> None:
    over = waiting(state=JobState.CANCELLED, cancel_reason=f"replaced by job {CHILD}", finished_at=NOON)
    found = explain(job_facts(over))
    assert [one.command for one in found.suggestions] == [f"warrener job {CHILD}"]


def test_a_map_counts_the_jobs_of_all_its_batches_and_other_calls_apart() -> None:
    facts = suspended(CallKind.MAP, CallKind.SIGNAL, left=312)
    (turn,) = facts.turns
    assert turn.suspension is not None
    first, signal = turn.suspension.calls
    batches = [first.model_copy(update={"call_id": f"{first.call_id[:-1]}{number}"}) for number in range(12)]
    calls = (*batches, signal)
    many = replace(turn, suspension=turn.suspension.model_copy(update={"calls": calls}))
    found = explain(replace(facts, turns=(many,)))
    assert "waits for at most 312 of 6,000 jobs of parcels.weigh" in found.sentence
    assert found.sentence.endswith(", and for 1 more call")


def test_the_turns_of_a_workflow_are_its_attempts_also_of_earlier_generations() -> None:
    facts = suspended(CallKind.SIGNAL, row={"attempt": 6, "suspensions": 3, "generation": 3})
    steps = {step.name: step.detail for step in explain(facts).steps}
    assert steps["turns"] == "6 turns so far, its generation since turn 3"
