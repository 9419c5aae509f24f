"""The causes that `warrener explain` distinguishes, each with facts that show it: a system in which all is
well, and what differs from it. Tests check what is explained, and the page `why-a-job-waits.md` lists it:

    python -m services.console.tests.explanations.explained   writes the table of that page
"""

import re
from dataclasses import replace
from pathlib import Path

from services.console.tests.explanations.example_facts import (
    CHANGED,
    CHILD,
    ENDING,
    ERROR,
    JOB,
    KILLED,
    NEW,
    UNKNOWN_TYPE,
    WRONG_HEADER,
    agent,
    breaker,
    dead,
    dead_letter,
    ended,
    held_back,
    job_facts,
    job_type,
    limit,
    parked,
    queue,
    queued,
    queued_in,
    refusal,
    rejected,
    retrying,
    running,
    schedule,
    schedule_row,
    silent,
    suspended,
    system,
    tick,
    unseen,
    unserved,
    waiting,
)
from tests.store_rows import NOON, after, attempt_of

from warrener.explanations import explain, facts
from warrener.explanations.explanation import Explanation
from warrener.explanations.unseen import explain_unreachable_store
from warrener.render.explanation import next_line
from warrener_contracts.circuit_breaker import BreakerState
from warrener_contracts.events import CallKind, StepRetry, TickStatus
from warrener_contracts.identity import undo_job_id
from warrener_contracts.policy import JobPolicy
from warrener_contracts.schedule_words import OverlapPolicy
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import DISPATCH, RETURN
from warrener_contracts.triggers import EventRule
from warrener_store.dead_letters.rows import DeadLetterState
from warrener_store.jobs.rows import AttemptOutcome

PAGE = Path(__file__).parents[4] / "docs" / "explanation" / "why-a-job-waits.md"
BEGIN, END = "<!-- causes: begin -->", "<!-- causes: end -->"

# -- the table -----------------------------------------------------------------------------------------------

CASES: dict[str, facts.Subject | Explanation] = {
    "The database does not run.": explain_unreachable_store("order-17", "Connection refused", None, NOON),
    "The store is read-only or locked, or its disk is full.": job_facts(
        waiting(), system(store_trouble="the disk of /var/lib/warrener/state.db is full, 0 bytes are left")
    ),
    "The broker is frozen, cut off or down.": queued_in(
        broker_trouble="no answer within 5 s", schedulers=None, supervisors=None, queues={}
    ),
    "The broker is low on memory or disk.": queued_in(broker_alarm="low on memory"),
    "A scheduler or a supervisor may not read or write what every job needs.": queued_in(
        schedulers=0,
        refused={"queue warrener.requests": refusal("read queue warrener.requests", "scheduler")},
    ),
    "No scheduler runs.": unseen(system(schedulers=0, requests_waiting=3)),
    "No scheduler runs, and a delayed job is due.": job_facts(waiting(), system(schedulers=0)),
    "The scheduler is frozen while a delayed job becomes due.": job_facts(waiting()),
    "Many requests wait before this one.": unseen(system(requests_waiting=31_000)),
    "No supervisor runs, and an attempt has ended.": job_facts(
        running(), system(supervisors=0, statuses_waiting=2)
    ),
    "The supervisor is frozen.": queued_in(agents=(silent(),), statuses_waiting=7),
    "A request names a job type that no agent has announced.": rejected(
        "unknown_job_type",
        "expected a job type that an agent has announced, got 'flights.lod': start an agent for it",
    ),
    "The arguments of a request do not match the job type's schema.": rejected(
        "bad_arguments", "arguments: expected 'path', got none"
    ),
    "A request has a version, or a type of event, that the services do not know.": rejected(
        "unknown_version", "expected job.requested.v1, got job.requested.v9"
    ),
    "A request repeats the id of an earlier one with other content.": rejected(
        "conflicting_repeat",
        "expected the content of the earlier request with id 'order-17', got another one: a new job "
        "needs a new id",
    ),
    "A message about the id is parked from another queue.": rejected(
        "impossible", "expected a running job, got a dead one", queue="warrener.status"
    ),
    "Retention has deleted the job.": unseen(
        text=str(JOB), known_from="a tick of schedule flights.hourly", made_at=after(-864_000)
    ),
    "Its id is older than all jobs of the store.": unseen(
        text=str(JOB), made_at=after(-864_000), oldest_job_at=after(-600_000)
    ),
    "A request was published a moment ago, and the scheduler that received it is frozen.": unseen(
        text=str(JOB), made_at=after(-60)
    ),
    "An id that was never requested, or at another broker.": unseen(),
    "The request has a delay.": job_facts(waiting(due_at=after(600))),
    "The requester's clock is ahead, and its request has a `not_before`.": job_facts(
        waiting(requested_at=after(3300), due_at=after(3900))
    ),
    "A circuit breaker is open.": job_facts(waiting(), system(breakers=breaker())),
    "All slots of a limit of its job type are taken.": job_facts(waiting(), limit=limit()),
    "A retry waits for a slot too.": job_facts(
        retrying(due_at=after(-5)), limit=limit(slots=1, before=0, since=after(-5))
    ),
    "A slot is free, and no supervisor gives it to the next job.": job_facts(
        waiting(), system(supervisors=0), limit=limit(free=1, before=0)
    ),
    "A workflow holds the only slot that a job needs which it has called.": job_facts(
        waiting(), limit=limit(slots=1, before=0, above=(CHILD,))
    ),
    "Another job with its unique key has replaced it while it waited.": job_facts(
        waiting(cancel_reason=f"replaced by job {CHILD}")
    ),
    "A workflow has called a job for which another one stands.": job_facts(
        waiting(ending_reason=f"as job {CHILD}", wake_at=NOON)
    ),
    "A person has opened a breaker.": job_facts(
        waiting(), system(breakers=breaker(until=None, manual=True, reason="maintenance"))
    ),
    "A queue is paused for a time.": job_facts(
        waiting(), system(breakers=breaker(name="queue:default", manual=True, reason="maintenance"))
    ),
    "A queue is paused.": job_facts(
        waiting(), system(breakers=breaker(name="queue:default", until=None, manual=True, reason=""))
    ),
    "A breaker lets probes through.": job_facts(
        retrying(due_at=after(-5)), system(breakers=breaker(state=BreakerState.HALF_OPEN, probes_succeeded=0))
    ),
    "The deadline passes before the job is due.": job_facts(
        waiting(due_at=after(600), deadline_at=after(300))
    ),
    "An attempt has failed.": job_facts(retrying()),
    "The handler has put the job off.": job_facts(
        retrying(failures=0, error=None),
        attempts=(attempt_of(replace(queued(), job_id=JOB), AttemptOutcome.SNOOZED),),
    ),
    "The deadline passes before the retry.": job_facts(retrying(deadline_at=after(120))),
    "The job is due now.": job_facts(waiting(due_at=after(-1))),
    "The queue has not confirmed the dispatch yet.": job_facts(
        queued(dispatched_at=None, updated_at=after(-1))
    ),
    "The dispatch queue was deleted.": queued_in(queues=queue(exists=False)),
    "The binding of the queue was removed, and the dispatch came back.": job_facts(
        queued(dispatched_at=None), system(queues=queue(unbound=(DISPATCH,)))
    ),
    "The binding by which retries return was removed.": job_facts(
        retrying(due_at=after(-60)), system(queues=queue(unbound=(RETURN,)))
    ),
    "The queue has reached its maximum length, or lost its quorum.": job_facts(
        queued(dispatched_at=None), refusing_since=after(-180)
    ),
    "The queue was purged.": queued_in(queues=queue(waiting=0, consumers=1)),
    "The request names a queue that no agent has ever served.": job_facts(
        queued(queue="defualt"), system(queues={"defualt": facts.QueueFacts(waiting=1)})
    ),
    "No agent of the queue was ever started.": unserved(agents=()),
    "The only agent of the queue was killed.": unserved(agents=(silent(),)),
    "Another job of the queue has ended its agents.": unserved(
        agents=(silent(),), ending_jobs={"default": ENDING}
    ),
    "The agent is frozen, and its connection is still open.": queued_in(agents=(silent(20),)),
    "The agent drains.": unserved(agents=(agent(draining=True),)),
    "The agents of the queue have an earlier version without the job type.": queued_in(
        agents=(agent(job_types=("flights.list",)),)
    ),
    "An agent without the job type has returned the attempt.": job_facts(
        retrying(error=UNKNOWN_TYPE, failures=0), system(agents=(agent(job_types=None),))
    ),
    "All slots of the queue's agents are taken.": queued_in(
        agents=(agent(free_slots={"default": 0}, running=4),)
    ),
    "The agents cannot use their ledger.": unserved(
        agents=(agent(trouble="OperationalError: database is locked"),)
    ),
    "The agents may not read their queue, or not report.": unserved(
        agents=(agent(trouble=refusal("read queue warrener.queue.default", "agent")),)
    ),
    "Other jobs are in the queue before it.": job_facts(queued()),
    "It runs.": job_facts(running()),
    "Its cancellation was requested, and the handler goes on.": job_facts(
        running(cancel_reason="wrong file")
    ),
    "It runs past its timeout.": job_facts(running(started_at=after(-3700))),
    "The agent that runs it was killed.": job_facts(running(), system(agents=(silent(30),))),
    "The agent that runs it was killed a moment ago.": job_facts(
        running(), system(queues=queue(), agents=(agent(last_seen_at=after(-2)),))
    ),
    "A workflow waits for a child job.": suspended(
        CallKind.JOB, CallKind.SIGNAL, child=running(job_id=CHILD, job_type="cards.charge")
    ),
    "A workflow waits for a child job whose agent is gone.": suspended(
        CallKind.JOB,
        child=queued(job_id=CHILD, job_type="cards.charge"),
        around=system(queues=queue(waiting=1), agents=(silent(),)),
    ),
    "A workflow waits for the jobs of a map.": suspended(CallKind.MAP, left=312),
    "The jobs of a map wait for a slot.": suspended(
        CallKind.MAP, left=312, child=waiting(job_id=CHILD), limit=limit()
    ),
    "A workflow waits for a job that waits for a slot.": suspended(
        CallKind.JOB, child=waiting(job_id=CHILD, job_type="cards.charge"), limit=limit()
    ),
    "A workflow waits for a signal.": suspended(CallKind.SIGNAL),
    "A workflow waits for a signal, and not for longer than a time.": suspended(
        CallKind.SIGNAL, wake_at=after(600), timer_line="orders.py:44"
    ),
    "A workflow sleeps.": suspended(wake_at=after(600), timer_line="orders.py:52"),
    "A workflow waits to try a step again.": suspended(
        CallKind.STEP,
        wake_at=after(600),
        retries=(
            StepRetry(call_id="step#1", tries=2, retry_at=after(600), error="OSError: no route to host"),
        ),
    ),
    "The next turn of a workflow is due.": suspended(CallKind.SIGNAL, row={"wake_at": after(-1)}),
    "The next turn of a workflow is due, and the supervisor is frozen.": suspended(
        CallKind.SIGNAL, row={"wake_at": after(-60)}
    ),
    "A workflow was cancelled, and its child job has not ended.": suspended(
        CallKind.JOB,
        row={"ending": JobState.CANCELLED, "ending_reason": "wrong order"},
        child=running(job_id=CHILD, job_type="cards.charge"),
    ),
    "A workflow has failed, and undoes a call.": suspended(
        CallKind.JOB,
        row={"ending": JobState.DEAD, "ending_reason": "OutOfStock is never retried"},
        child=running(job_id=undo_job_id(JOB, "job#1"), job_type="cards.refund"),
    ),
    "A workflow has failed, and is held.": suspended(
        CallKind.JOB, row={"ending_reason": "its 5 attempts are used up", "error": ERROR}
    ),
    "A workflow waits for a child job of a type that no agent has announced.": replace(
        suspended(CallKind.JOB),
        parked_child=unseen(
            text=str(CHILD),
            parked=parked(
                "unknown_job_type", "expected a job type that an agent has announced, got 'cards.charge'"
            ),
        ),
    ),
    "A workflow was cancelled, and a call could not be undone.": suspended(
        CallKind.JOB,
        row={
            "state": JobState.CANCELLED,
            "cancel_reason": "wrong order",
            "finished_at": after(-60),
            "wake_at": None,
        },
        child=dead(5, job_id=undo_job_id(JOB, "job#1"), job_type="cards.refund"),
    ),
    "The code of a workflow has changed.": job_facts(retrying(error=CHANGED, failures=0)),
    "It has succeeded.": job_facts(ended(JobState.SUCCEEDED)),
    "It was cancelled.": job_facts(ended(JobState.CANCELLED, cancel_reason="wrong file")),
    "Its deadline has passed.": job_facts(ended(JobState.EXPIRED, deadline_at=after(-60))),
    "Its attempts are used up.": job_facts(dead(5), dead_letter=dead_letter()),
    "Its attempts are used up, and some were lost with their agents.": job_facts(
        dead(8, failures=5, losses=3), dead_letter=dead_letter()
    ),
    "Its policy does not retry the error.": job_facts(
        dead(1, policy=JobPolicy(max_attempts=3), error=WRONG_HEADER),
        dead_letter=dead_letter(reason="WrongHeader is never retried (no_retry_on)"),
    ),
    "Its attempts have ended their processes.": job_facts(
        dead(4, error=KILLED),
        dead_letter=dead_letter(reason="quarantined as poison: 4 attempts ended with their process"),
    ),
    "Its dead letter was redriven.": job_facts(
        dead(5),
        dead_letter=dead_letter(state=DeadLetterState.REDRIVEN, redriven_as=NEW),
        redriven_as=replace(running(), job_id=NEW),
    ),
    "Its dead letter was dropped.": job_facts(
        dead(5), dead_letter=dead_letter(state=DeadLetterState.DROPPED, note="the order was refunded")
    ),
    "A schedule is paused.": schedule(
        schedule_row(paused=True, pause_reason="maintenance"),
        ticks=(tick(status=TickStatus.SKIPPED, reason="the schedule is paused: maintenance", job_id=None),),
    ),
    "The requests of ten ticks in a row were rejected.": schedule(
        schedule_row(
            paused=True,
            pause_reason="the requests of its last 10 ticks were rejected: "
            "arguments: expected 'path', got none",
        )
    ),
    "A schedule has reached its limit of jobs (`max_runs`).": schedule(
        schedule_row(choices={"max_runs": 3}, runs=3, next_at=None, wake_at=None)
    ),
    "A schedule would start itself in a circle.": schedule(
        refused=parked(
            "bad_fields",
            "expected schedules that do not start each other, got flights.hourly → a → flights.hourly",
        )
    ),
    "A tick was skipped by the overlap policy.": schedule(
        schedule_row(choices={"overlap": OverlapPolicy.SKIP}),
        ticks=(held_back(status=TickStatus.SKIPPED),),
        last_job=replace(running(), job_id=JOB),
    ),
    "A tick waits for the end of an earlier job.": schedule(
        schedule_row(choices={"overlap": OverlapPolicy.QUEUE_ONE}, waiting=1),
        ticks=(held_back(status=TickStatus.WAITING),),
        last_job=replace(running(), job_id=JOB),
    ),
    "The request of a tick was rejected.": schedule(
        schedule_row(),
        ticks=(tick(),),
        rejected=parked("bad_arguments", "arguments: expected 'path', got none"),
    ),
    "A schedule waits for an event.": schedule(
        schedule_row(rule=EventRule(exchange="shop", key="order.#"), next_at=None, wake_at=None)
    ),
    "A tick is overdue.": schedule(schedule_row(next_at=after(-300), wake_at=after(-300))),
    "A schedule waits for its next tick.": schedule(schedule_row(), ticks=(tick(),)),
    "A name that no schedule has.": schedule(),
    "A queue with agents.": facts.QueueSubject(system=system(), name="default", oldest=after(-1)),
    "A queue with jobs and no consumer.": facts.QueueSubject(
        system=system(queues=queue(waiting=7), agents=(silent(),)), name="default", oldest=after(-240)
    ),
    "An agent with free slots.": facts.AgentSubject(system=system(), row=agent()),
    "An agent that has drained.": facts.AgentSubject(
        system=system(agents=(silent(draining=True),)), row=silent(draining=True)
    ),
    "A job type with agents.": facts.TypeSubject(system=system(), row=job_type()),
}
"""When a cause comes about: its facts. The page has what is explained then, the cause too."""


def explained(when: str) -> Explanation:
    found = CASES[when]
    return found if isinstance(found, Explanation) else explain(found)


def table() -> str:
    lines = [
        "| when | cause | what it says | what is next | on a page | command |",
        "|---|---|---|---|---|---|",
    ]
    for when in CASES:
        found = explained(when)
        sign = "✗ " if found.needs_action else ""
        buttons = ", ".join(
            f"[{one.label}]" if one.verb else one.label for one in found.suggestions if one.address
        )
        commands = ", ".join(f"`{command}`" for command in found.commands)
        cells = (when, f"{sign}`{found.cause}`", found.line, next_line(found, NOON), buttons, commands)
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines)


def updated(page: str) -> str:
    return re.sub(f"{BEGIN}.*{END}", lambda _: f"{BEGIN}\n{table()}\n{END}", page, flags=re.DOTALL)


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
