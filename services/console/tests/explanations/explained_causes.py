"""The causes that `warrener explain` distinguishes, each with facts that show it. Tests check what is said,
and the page `docs/explanation/why-a-job-waits.md` lists it:

    python -m services.console.tests.explanations.explained_causes   writes the table of that page
"""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from services.console.tests.explanations.explained_facts import (
    ENDING,
    JOB,
    KILLED,
    UNKNOWN_TYPE,
    WRONG_HEADER,
    agent,
    breaker,
    dead,
    dead_letter,
    ended,
    job_facts,
    job_type,
    parked,
    queue,
    queued,
    queued_in,
    rejected,
    retrying,
    running,
    schedule,
    schedule_row,
    silent,
    system,
    tick,
    unseen,
    waiting,
)
from tests.store_rows import NOON, after, attempt_of

from warrener.explanations import explain
from warrener.explanations.causes import Cause
from warrener.explanations.explanation import Explanation
from warrener.explanations.facts import AgentSubject, QueueFacts, QueueSubject, Subject, TypeSubject
from warrener.explanations.unseen import explain_unreachable_store
from warrener.render.explanation import next_line
from warrener_contracts.circuit_breaker import BreakerState
from warrener_contracts.events import TickStatus
from warrener_contracts.policy import JobPolicy
from warrener_contracts.schedule_words import OverlapPolicy
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import DISPATCH, RETURN
from warrener_contracts.triggers import EventRule
from warrener_store.dead_letters.rows import DeadLetterState
from warrener_store.jobs.rows import AttemptOutcome

PAGE = Path(__file__).parents[4] / "docs" / "explanation" / "why-a-job-waits.md"
BEGIN, END = "<!-- causes: begin -->", "<!-- causes: end -->"
NEW = UUID("01936f30-11d2-7a8b-8c3e-5a7d1b2c4e6f")


def refusal(what: str, user: str) -> str:
    """A sentence of a service whose user lacks a permission; its command is shortened."""
    command = f"rabbitmqctl set_permissions -p / {user} …"
    return f"expected the permission to {what} for user {user}, got ACCESS_REFUSED; run `{command}`"


class Case(NamedTuple):
    """A cause, how it comes about, and facts that show it."""

    cause: Cause
    when: str
    explain: Callable[[], Explanation]


def case(cause: Cause, when: str, facts: Subject) -> Case:
    """A case of `explain`."""
    return Case(cause, when, lambda: explain(facts))


# -- the table ---------------------------------------------------------------------------------------------

CASES = (
    Case(
        Cause.STORE_UNREACHABLE,
        "The database does not run.",
        lambda: explain_unreachable_store("order-17", "Connection refused", None, NOON),
    ),
    case(
        Cause.STORE_NOT_WRITABLE,
        "The store is read-only or locked, or its disk is full.",
        job_facts(
            waiting(),
            system(store_trouble="the disk of /var/lib/warrener/state.db is full, 0 bytes are left"),
        ),
    ),
    case(
        Cause.BROKER_UNREACHABLE,
        "The broker is frozen, cut off or down.",
        queued_in(broker_trouble="no answer within 5 s", schedulers=None, supervisors=None, queues={}),
    ),
    case(
        Cause.BROKER_BLOCKED, "The broker is low on memory or disk.", queued_in(broker_alarm="low on memory")
    ),
    case(
        Cause.PERMISSION_REFUSED,
        "A scheduler or a supervisor may not read or write what every job needs.",
        queued_in(
            schedulers=0,
            refused={"queue warrener.requests": refusal("read queue warrener.requests", "scheduler")},
        ),
    ),
    case(Cause.SCHEDULER_DOWN, "No scheduler runs.", unseen(system(schedulers=0, requests_waiting=3))),
    case(
        Cause.SCHEDULER_DOWN,
        "No scheduler runs, and a delayed job is due.",
        job_facts(waiting(), system(schedulers=0)),
    ),
    case(
        Cause.SCHEDULER_LATE, "The scheduler is frozen while a delayed job becomes due.", job_facts(waiting())
    ),
    case(
        Cause.SCHEDULER_LATE, "Many requests wait before this one.", unseen(system(requests_waiting=31_000))
    ),
    case(
        Cause.SUPERVISOR_DOWN,
        "No supervisor runs, and an attempt has ended.",
        job_facts(running(), system(supervisors=0, statuses_waiting=2)),
    ),
    case(
        Cause.SUPERVISOR_STALLED,
        "The supervisor is frozen.",
        queued_in(agents=(silent(),), statuses_waiting=7),
    ),
    case(
        Cause.JOB_TYPE_UNKNOWN,
        "A request names a job type that no agent has announced.",
        rejected(
            "unknown_job_type",
            "expected a job type that an agent has announced, got 'flights.lod': start an agent for it",
        ),
    ),
    case(
        Cause.ARGUMENTS_REFUSED,
        "The arguments of a request do not match the job type's schema.",
        rejected("bad_arguments", "arguments: expected 'path', got none"),
    ),
    case(
        Cause.SCHEMA_UNKNOWN,
        "A request has a version, or a type of event, that the services do not know.",
        rejected("unknown_version", "expected job.requested.v1, got job.requested.v9"),
    ),
    case(
        Cause.REQUEST_REJECTED,
        "A request repeats the id of an earlier one with other content.",
        rejected(
            "conflicting_repeat",
            "expected the content of the earlier request with id 'order-17', got another one: a new job "
            "needs a new id",
        ),
    ),
    case(
        Cause.MESSAGE_PARKED,
        "A message about the id is parked from another queue.",
        rejected("impossible", "expected a running job, got a dead one", queue="warrener.status"),
    ),
    case(
        Cause.PRUNED,
        "Retention has deleted the job.",
        unseen(text=str(JOB), known_from="a tick of schedule flights.hourly", made_at=after(-864_000)),
    ),
    case(
        Cause.PRUNED,
        "Its id is older than all jobs of the store.",
        unseen(text=str(JOB), made_at=after(-864_000), oldest_job_at=after(-600_000)),
    ),
    case(
        Cause.SCHEDULER_LATE,
        "A request was published a moment ago, and the scheduler that received it is frozen.",
        unseen(text=str(JOB), made_at=after(-60)),
    ),
    case(Cause.NEVER_SEEN, "An id that was never requested, or at another broker.", unseen()),
    case(Cause.DELAYED, "The request has a delay.", job_facts(waiting(due_at=after(600)))),
    case(
        Cause.CLOCK_SKEW,
        "The requester's clock is ahead, and its request has a `not_before`.",
        job_facts(waiting(requested_at=after(3300), due_at=after(3900))),
    ),
    case(Cause.BREAKER_OPEN, "A circuit breaker is open.", job_facts(waiting(), system(breakers=breaker()))),
    case(
        Cause.BREAKER_OPEN,
        "A person has opened a breaker.",
        job_facts(waiting(), system(breakers=breaker(until=None, manual=True, reason="maintenance"))),
    ),
    case(
        Cause.BREAKER_OPEN,
        "A breaker lets probes through.",
        job_facts(
            retrying(due_at=after(-5)),
            system(breakers=breaker(state=BreakerState.HALF_OPEN, probes_succeeded=0)),
        ),
    ),
    case(
        Cause.DEADLINE_BEFORE_START,
        "The deadline passes before the job is due.",
        job_facts(waiting(due_at=after(600), deadline_at=after(300))),
    ),
    case(Cause.RETRY_WAIT, "An attempt has failed.", job_facts(retrying())),
    case(
        Cause.SNOOZED,
        "The handler has put the job off.",
        job_facts(
            retrying(failures=0, error=None),
            attempts=(attempt_of(replace(queued(), job_id=JOB), AttemptOutcome.SNOOZED),),
        ),
    ),
    case(
        Cause.DEADLINE_BEFORE_RETRY,
        "The deadline passes before the retry.",
        job_facts(retrying(deadline_at=after(120))),
    ),
    case(Cause.DISPATCHING, "The job is due now.", job_facts(waiting(due_at=after(-1)))),
    case(
        Cause.DISPATCHING,
        "The queue has not confirmed the dispatch yet.",
        job_facts(queued(dispatched_at=None, updated_at=after(-1))),
    ),
    case(Cause.QUEUE_MISSING, "The dispatch queue was deleted.", queued_in(queues=queue(exists=False))),
    case(
        Cause.BINDING_MISSING,
        "The binding of the queue was removed, and the dispatch came back.",
        job_facts(queued(dispatched_at=None), system(queues=queue(unbound=(DISPATCH,)))),
    ),
    case(
        Cause.BINDING_MISSING,
        "The binding by which retries return was removed.",
        job_facts(retrying(due_at=after(-60)), system(queues=queue(unbound=(RETURN,)))),
    ),
    case(
        Cause.QUEUE_REFUSES,
        "The queue has reached its maximum length, or lost its quorum.",
        job_facts(queued(dispatched_at=None), refusing_since=after(-180)),
    ),
    case(Cause.DISPATCH_MISSING, "The queue was purged.", queued_in(queues=queue(waiting=0, consumers=1))),
    case(
        Cause.WRONG_QUEUE,
        "The request names a queue that no agent has ever served.",
        job_facts(queued(queue="defualt"), system(queues={"defualt": QueueFacts(waiting=1)})),
    ),
    case(
        Cause.NO_AGENT,
        "No agent of the queue was ever started.",
        queued_in(queues=queue(waiting=1), agents=()),
    ),
    case(
        Cause.AGENT_GONE,
        "The only agent of the queue was killed.",
        queued_in(queues=queue(waiting=1), agents=(silent(),)),
    ),
    case(
        Cause.AGENT_GONE,
        "Another job of the queue has ended its agents.",
        queued_in(queues=queue(waiting=1), agents=(silent(),), ending_jobs={"default": ENDING}),
    ),
    case(
        Cause.AGENT_STALLED,
        "The agent is frozen, and its connection is still open.",
        queued_in(agents=(silent(20),)),
    ),
    case(
        Cause.AGENTS_DRAINING,
        "The agent drains.",
        queued_in(queues=queue(waiting=1), agents=(agent(draining=True),)),
    ),
    case(
        Cause.TYPE_NOT_KNOWN,
        "The agents of the queue have an earlier version without the job type.",
        queued_in(agents=(agent(job_types=("flights.list",)),)),
    ),
    case(
        Cause.TYPE_NOT_KNOWN,
        "An agent without the job type has returned the attempt.",
        job_facts(retrying(error=UNKNOWN_TYPE, failures=0), system(agents=(agent(job_types=None),))),
    ),
    case(
        Cause.SLOTS_FULL,
        "All slots of the queue's agents are taken.",
        queued_in(agents=(agent(free_slots={"default": 0}, running=4),)),
    ),
    case(
        Cause.LEDGER_UNREACHABLE,
        "The agents cannot use their ledger.",
        queued_in(queues=queue(waiting=1), agents=(agent(trouble="OperationalError: database is locked"),)),
    ),
    case(
        Cause.PERMISSION_REFUSED,
        "The agents may not read their queue, or not report.",
        queued_in(
            queues=queue(waiting=1),
            agents=(agent(trouble=refusal("read queue warrener.queue.default", "agent")),),
        ),
    ),
    case(Cause.IN_QUEUE, "Other jobs are in the queue before it.", job_facts(queued())),
    case(Cause.RUNNING, "It runs.", job_facts(running())),
    case(
        Cause.CANCEL_REQUESTED,
        "Its cancellation was requested, and the handler goes on.",
        job_facts(running(cancel_reason="wrong file")),
    ),
    case(Cause.TIMED_OUT, "It runs past its timeout.", job_facts(running(started_at=after(-3700)))),
    case(
        Cause.AGENT_LOST,
        "The agent that runs it was killed.",
        job_facts(running(), system(agents=(silent(30),))),
    ),
    case(
        Cause.AGENT_LOST,
        "The agent that runs it was killed a moment ago.",
        job_facts(running(), system(queues=queue(), agents=(agent(last_seen_at=after(-2)),))),
    ),
    case(Cause.SUCCEEDED, "It has succeeded.", job_facts(ended(JobState.SUCCEEDED))),
    case(
        Cause.CANCELLED, "It was cancelled.", job_facts(ended(JobState.CANCELLED, cancel_reason="wrong file"))
    ),
    case(
        Cause.EXPIRED, "Its deadline has passed.", job_facts(ended(JobState.EXPIRED, deadline_at=after(-60)))
    ),
    case(Cause.DEAD_LETTER, "Its attempts are used up.", job_facts(dead(5), dead_letter=dead_letter())),
    case(
        Cause.DEAD_LETTER,
        "Its attempts are used up, and some were lost with their agents.",
        job_facts(dead(8, failures=5, losses=3), dead_letter=dead_letter()),
    ),
    case(
        Cause.DEAD_LETTER,
        "Its policy does not retry the error.",
        job_facts(
            dead(1, policy=JobPolicy(max_attempts=3), error=WRONG_HEADER),
            dead_letter=dead_letter(reason="WrongHeader is never retried (no_retry_on)"),
        ),
    ),
    case(
        Cause.DEAD_LETTER,
        "Its attempts have ended their processes.",
        job_facts(
            dead(4, error=KILLED),
            dead_letter=dead_letter(reason="quarantined as poison: 4 attempts ended with their process"),
        ),
    ),
    case(
        Cause.REDRIVEN,
        "Its dead letter was redriven.",
        job_facts(
            dead(5),
            dead_letter=dead_letter(state=DeadLetterState.REDRIVEN, redriven_as=NEW),
            redriven_as=replace(running(), job_id=NEW),
        ),
    ),
    case(
        Cause.DROPPED,
        "Its dead letter was dropped.",
        job_facts(
            dead(5), dead_letter=dead_letter(state=DeadLetterState.DROPPED, note="the order was refunded")
        ),
    ),
    case(
        Cause.SCHEDULE_PAUSED,
        "A schedule is paused.",
        schedule(
            schedule_row(paused=True, pause_reason="maintenance"),
            ticks=(
                tick(status=TickStatus.SKIPPED, reason="the schedule is paused: maintenance", job_id=None),
            ),
        ),
    ),
    case(
        Cause.SCHEDULE_PAUSED,
        "The requests of ten ticks in a row were rejected.",
        schedule(
            schedule_row(
                paused=True,
                pause_reason="the requests of its last 10 ticks were rejected: "
                "arguments: expected 'path', got none",
            )
        ),
    ),
    case(
        Cause.SCHEDULE_OVER,
        "A schedule has reached its limit of jobs (`max_runs`).",
        schedule(schedule_row(choices={"max_runs": 3}, runs=3, next_at=None, wake_at=None)),
    ),
    case(
        Cause.SCHEDULE_REFUSED,
        "A schedule would start itself in a circle.",
        schedule(
            refused=parked(
                "bad_fields",
                "expected schedules that do not start each other, got flights.hourly → a → flights.hourly",
            )
        ),
    ),
    case(
        Cause.TICK_SKIPPED,
        "A tick was skipped by the overlap policy.",
        schedule(
            schedule_row(choices={"overlap": OverlapPolicy.SKIP}),
            ticks=(
                tick(status=TickStatus.SKIPPED, reason="the job of an earlier tick is not over", job_id=None),
            ),
            last_job=replace(running(), job_id=JOB),
        ),
    ),
    case(
        Cause.TICK_WAITS,
        "A tick waits for the end of an earlier job.",
        schedule(
            schedule_row(choices={"overlap": OverlapPolicy.QUEUE_ONE}, waiting=1),
            ticks=(
                tick(status=TickStatus.WAITING, reason="the job of an earlier tick is not over", job_id=None),
            ),
            last_job=replace(running(), job_id=JOB),
        ),
    ),
    case(
        Cause.TICK_REJECTED,
        "The request of a tick was rejected.",
        schedule(
            schedule_row(),
            ticks=(tick(),),
            rejected=parked("bad_arguments", "arguments: expected 'path', got none"),
        ),
    ),
    case(
        Cause.EVENT_AWAITED,
        "A schedule waits for an event.",
        schedule(schedule_row(rule=EventRule(exchange="shop", key="order.#"), next_at=None, wake_at=None)),
    ),
    case(
        Cause.SCHEDULER_LATE,
        "A tick is overdue.",
        schedule(schedule_row(next_at=after(-300), wake_at=after(-300))),
    ),
    case(Cause.NEXT_TICK, "A schedule waits for its next tick.", schedule(schedule_row(), ticks=(tick(),))),
    case(Cause.NEVER_SEEN, "A name that no schedule has.", schedule()),
    case(
        Cause.QUEUE_WORKS,
        "A queue with agents.",
        QueueSubject(system=system(), name="default", oldest=after(-1)),
    ),
    case(
        Cause.AGENT_GONE,
        "A queue with jobs and no consumer.",
        QueueSubject(
            system=system(queues=queue(waiting=7), agents=(silent(),)), name="default", oldest=after(-240)
        ),
    ),
    case(Cause.AGENT_WORKS, "An agent with free slots.", AgentSubject(system=system(), row=agent())),
    case(
        Cause.AGENT_ENDED,
        "An agent that has drained.",
        AgentSubject(system=system(agents=(silent(draining=True),)), row=silent(draining=True)),
    ),
    case(Cause.TYPE_SERVED, "A job type with agents.", TypeSubject(system=system(), row=job_type())),
)


# -- the page ----------------------------------------------------------------------------------------------


def table() -> str:
    """The table of the page."""
    lines = [
        "| when | cause | what it says | what is next | on a page | command |",
        "|---|---|---|---|---|---|",
    ]
    for each in CASES:
        found = each.explain()
        sign = "✗ " if found.needs_action else ""
        buttons = ", ".join(
            f"[{one.label}]" if one.verb else one.label for one in found.suggestions if one.address
        )
        commands = ", ".join(f"`{command}`" for command in found.commands)
        cells = (each.when, f"{sign}`{found.cause}`", found.line, next_line(found, NOON), buttons, commands)
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines)


def updated(page: str) -> str:
    """The page with the table of today."""
    return re.sub(f"{BEGIN}.*{END}", lambda _: f"{BEGIN}\n{table()}\n{END}", page, flags=re.DOTALL)


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
