"""A store with content for the pages of schedules, agents, queues, incidents, parked messages, breakers."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from uuid import uuid4

from tests.store_rows import (
    agent_row,
    job_type_row,
    parked_message,
    raised_incident,
    recorded_action,
    tick_row,
    waiting_job,
)

from warrener_contracts.circuit_breaker import BreakerState
from warrener_contracts.events import ErrorInfo, ErrorKind, SchedulePutData, TickStatus
from warrener_contracts.policy import JobPolicy
from warrener_contracts.schedule_rules import (
    BusinessDaysRule,
    CronRule,
    IntervalRule,
    OnceRule,
    Rule,
    ScheduleChoices,
)
from warrener_contracts.state_machine import JobState
from warrener_contracts.triggers import AfterRule, EventRule
from warrener_store import Store
from warrener_store.agents.rows import AgentRow, JobTypeRow
from warrener_store.incidents.rows import PolicyAdoption, PolicyHistory, PolicyVersionRow, RaisedIncident
from warrener_store.jobs.rows import AttemptOutcome, JobRow, Save, evolve
from warrener_store.parked.rows import ParkedMessage
from warrener_store.schedules.rows import ScheduleRow, TickRow

from .stored_jobs import attempt, open_breaker, put_queued, put_running

HOSTILE = "<script>alert('x')</script>"
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
AFTER_LOAD = AfterRule.model_validate({"upstreams": [{"job_type": "flights.load"}]})
LAST_DAY = BusinessDaysRule.model_validate({"at": ["09:00"], "nth": [-1]})
RULES: Sequence[tuple[str, Rule, str, str, str | None]] = (
    ("billing.nightly-close", CronRule(expression="30 2 * * *"), "Europe/Berlin", "ledger.close", "finance"),
    ("fares.refresh", IntervalRule(every=5 * MINUTE), "UTC", "fares.fetch", "pricing"),
    ("flights.hourly", CronRule(expression="30 * * * *"), "Europe/Berlin", "flights.load", "operations"),
    ("mail.digest", CronRule(expression="0 8 * * MON-FRI"), "America/New_York", "mail.send", None),
    ("payroll.run", LAST_DAY, "Europe/Paris", "payroll.run", "finance"),
    ("release.party", OnceRule(at=datetime(2026, 1, 1, tzinfo=UTC)), "UTC", "mail.send", None),
    ("reports.after-load", AFTER_LOAD, "UTC", "reports.make", "code"),
    ("sensors.poll", IntervalRule(every=timedelta(seconds=30)), "UTC", "sensors.read", "code"),
    ("support.alert", EventRule(key="job.dead.#"), "UTC", "mail.send", "operations"),
)
SKIPPED = "skipped: the job of the tick before still runs"
LATE = "late by 4.1 s: the broker was away"
ERROR = ErrorInfo(kind=ErrorKind.ERROR, type="TimeoutError", message="no answer within 30 s")
BODY = (
    b'{"specversion":"1.0","type":"job.requested.v1","data":{"job_type":"no.such",'
    b'"arguments":{"password":"hunter2","q":"<script>alert(1)</script>"}}}'
)
STEPS = [
    {"do": "retry", "after": "PT1M"},
    {"do": "alert", "after": "PT5M", "to": ["on-call"]},
    {"do": "digest", "after": "PT1H", "into": "daily"},
    {"do": "close", "after": "P7D"},
]


def definition(name: str, rule: Rule, zone: str, job_type: str, owner: str | None) -> SchedulePutData:
    return SchedulePutData(
        name=name,
        rule=rule,
        timezone=zone,
        job_type=job_type,
        owner=owner,
        arguments={"path": "s3://bucket/2026-11-23.csv", "note": HOSTILE},
        choices=ScheduleChoices(jitter=timedelta(seconds=5), pause_after_failures=5),
    )


class Filler:
    """Fills a store; the same for the same seed and moment."""

    def __init__(self, store: Store, now: datetime) -> None:
        self.store, self.now = store, now
        self._random = Random(7)

    async def fill(self) -> None:
        """Fill everything."""
        await self.put_agents()
        await self.put_schedules()
        await self.put_queued_jobs()
        await self.put_incidents()
        await self.put_parked()
        await self.put_breakers()
        await self.store.record_action(recorded_action("flights.hourly", action="schedule.pause"))

    # -- schedules -----------------------------------------------------------------------------------------

    async def put_schedules(self) -> None:
        """Schedules with two weeks of ticks and jobs."""
        rows = [self._schedule(*each) for each in RULES]
        await self.store.put_schedules(rows)
        await self.store.pause_schedules(
            ["mail.digest"], self.now, paused=True, why="the template is being rewritten"
        )
        steps = {
            "billing.nightly-close": DAY,
            "fares.refresh": 5 * MINUTE,
            "flights.hourly": HOUR,
            "mail.digest": DAY,
            "sensors.poll": timedelta(seconds=30),
            "reports.after-load": HOUR,
        }
        for name, step in steps.items():
            await self.put_runs(name, step, 400 if step < DAY else 24)

    def _schedule(self, name: str, rule: Rule, zone: str, job_type: str, owner: str | None) -> ScheduleRow:
        over = name == "release.party"
        waits = isinstance(rule, AfterRule | EventRule)
        next_at = self.now + timedelta(minutes=len(name))
        if name == "sensors.poll":
            next_at = self.now - 10 * MINUTE
        return ScheduleRow(
            definition=definition(name, rule, zone, job_type, owner),
            put_at=self.now - 40 * DAY,
            zone_version="2026a",
            next_at=None if over or waits else next_at,
            wake_at=None if over or waits else next_at,
            runs=1 if over else 960 + len(name),
        )

    async def put_runs(self, name: str, step: timedelta, count: int) -> None:
        """The last ticks of a schedule, with jobs that mostly succeed."""
        first = self.now.replace(minute=30 if step >= HOUR else 0, second=0, microsecond=0) - step * count
        jobs: list[JobRow] = []
        ticks: list[TickRow] = []
        for number in range(count):
            nominal = first + step * number
            chance = self._random.random()
            if chance < 0.04:
                ticks.append(_tick(name, nominal, None, TickStatus.SKIPPED, SKIPPED))
                continue
            seconds = 20 + 25 * self._random.random() + (60 if chance > 0.97 else 0)
            state = JobState.DEAD if 0.04 <= chance < 0.1 else JobState.SUCCEEDED
            if number == count - 1 and name == "flights.hourly":
                state = JobState.RUNNING
            jobs.append(self._job(name, nominal, seconds, state))
            ticks.append(_tick(name, nominal, jobs[-1], TickStatus.FIRED, "" if chance < 0.9 else LATE))
        await self.store.insert_jobs([_before(job) for job in jobs])
        await self.store.save_jobs([Save(job) for job in jobs])
        await self.store.add_ticks(ticks)
        await self.store.mark_ticks([tick.key for tick in ticks if tick.job_id], self.now)

    def _job(self, name: str, nominal: datetime, seconds: float, state: JobState) -> JobRow:
        job_type = next(each[3] for each in RULES if each[0] == name)
        started = nominal + timedelta(milliseconds=80)
        over = state.terminal
        return waiting_job(
            job_type=job_type,
            queue="loading" if job_type == "flights.load" else "default",
            source=f"warrener/schedule/{name}",
            requested_at=nominal,
            accepted_at=nominal + timedelta(milliseconds=20),
            state=state,
            version=2,
            attempt=1,
            agent_id="loader-1",
            dispatched_at=nominal + timedelta(milliseconds=50),
            started_at=started,
            lease_until=None if over else self.now + MINUTE,
            finished_at=started + timedelta(seconds=seconds) if over else None,
            wake_at=None if over else self.now + MINUTE,
            progress=None if over else 0.42,
            progress_note=None if over else f"file 42 of 100 {HOSTILE}",
            error=ERROR if state is JobState.DEAD else None,
            updated_at=self.now,
        )

    # -- agents and queues -----------------------------------------------------------------------------------

    async def put_agents(self) -> None:
        """Agents in each state, and the job types that they announce."""
        names = sorted({each[3] for each in RULES})
        await self.store.put_job_types([self._job_type(name) for name in names])
        await self.store.put_agents(
            [
                self._agent("loader-1", ("loading", "default"), 3, code_version="2026.11.3"),
                self._agent("loader-2", ("loading", "default"), 10, code_version="2026.11.3"),
                self._agent("mailer-1", ("default",), 0, draining=True, code_version="2026.11.2"),
                self._agent("worker-9", ("default",), 2, trouble=f"its ledger does not answer {HOSTILE}"),
                self._agent("old-3", ("slow",), 0, last_seen_at=self.now - 20 * MINUTE),
            ]
        )

    def _agent(self, name: str, queues: tuple[str, ...], running: int, **changes: Any) -> AgentRow:
        row = agent_row(
            name,
            queues=queues,
            running=running,
            started_at=self.now - 3 * DAY,
            last_seen_at=self.now - timedelta(seconds=1),
            job_types=tuple(sorted({each[3] for each in RULES})),
            free_slots={queue: max(10 - running, 0) for queue in queues},
        )
        return replace(row, **changes)

    def _job_type(self, name: str) -> JobTypeRow:
        policy = JobPolicy(depends_on=("billing-api",)) if name == "ledger.close" else JobPolicy()
        return job_type_row(
            name,
            queue="loading" if name == "flights.load" else "default",
            arguments_schema={"type": "object"},
            policy=policy,
            announced_by="loader-1",
            announced_at=self.now,
        )

    async def put_queued_jobs(self) -> None:
        """Jobs that wait, retry, and one whose attempt was lost with its agent."""
        for number in range(37):
            await put_queued(self.store, 90 - number, queue="loading", wake_at=self.now + HOUR)
        await put_queued(self.store, 3600, job_type="reports.make", queue="slow", wake_at=self.now + HOUR)
        lost = await put_running(self.store, 7200, job_type="ledger.close", agent_id="loader-1")
        verdict = f"retry at {(self.now + MINUTE).isoformat()}: the agent was silent"
        end = replace(
            attempt(lost, 1, 3600, verdict=verdict, error=None),
            outcome=AttemptOutcome.LOST,
            agent_id="loader-1",
        )
        again = evolve(
            lost,
            version=2,
            state=JobState.RETRYING,
            attempt=2,
            losses=1,
            agent_id=None,
            started_at=None,
            lease_until=None,
            due_at=self.now + MINUTE,
        )
        await self.store.save_jobs([Save(again, attempt=end)])

    # -- the others ------------------------------------------------------------------------------------------

    async def put_incidents(self) -> None:
        """Incidents in each state, two of which follow a policy."""
        incidents = self.store.escalations
        version = PolicyVersionRow(
            version="9f2c11d0a4b7",
            name="payments",
            definition={"policy": {"name": "payments", "steps": STEPS}},
            first_seen_at=self.now - 30 * DAY,
            last_seen_at=self.now,
        )
        await incidents.put_policies([version])
        raised = [
            self._raised("3f9a1c77e0b2", "job.dead", str(uuid4()), "ledger.close", 3 * HOUR - MINUTE * number)
            for number in range(7)
        ]
        raised += [
            self._raised(
                "schedule.overdue:sensors.poll",
                "schedule.overdue",
                "sensors.poll",
                "sensors.read",
                10 * MINUTE,
            ),
            self._raised("agent.lost:loader-1", "agent.lost", "loader-1", None, HOUR),
            self._raised(f"queue.mixed:{HOSTILE}", "queue.mixed", HOSTILE, None, 2 * DAY),
        ]
        await incidents.raise_incidents(raised)
        for row in await incidents.claim_incidents(self.now + HOUR, self.now + 2 * HOUR, "test", 50):
            if row.kind != "job.dead":
                continue
            adoption = PolicyAdoption(name="payments", version=version.version, since=row.first_seen_at)
            due = row.first_seen_at + timedelta(minutes=6, seconds=4) + HOUR
            progress = replace(
                row,
                policy_version=version.version,
                policy_history=PolicyHistory(adoptions=(adoption,)),
                step=2,
                due_at=due,
                wake_at=due,
            )
            assert await incidents.save_incident(progress)

    def _raised(
        self, fingerprint: str, kind: str, subject: str, job_type: str | None, ago: timedelta
    ) -> RaisedIncident:
        error = {"type": "TimeoutError", "message": f"no answer of the billing API within 30 s {HOSTILE}"}
        sample = {"error": error} if kind == "job.dead" else {"text": f"{kind} of {subject}"}
        return raised_incident(
            fingerprint,
            kind=kind,
            occurrence=subject if kind == "job.dead" else str(uuid4()),
            subject=subject,
            job_type=job_type,
            sample=sample,
            raised_at=self.now - ago,
        )

    async def put_parked(self) -> None:
        """Messages of several reasons; one is hostile, one no text, one has a secret."""
        messages = [
            self._parked("unknown_job_type", BODY, "no agent has announced no.such", 5),
            self._parked("not_json", f"{{ {HOSTILE}".encode(), f"expected JSON, got {{ {HOSTILE}", 50),
            self._parked("not_json", bytes(range(256)), "expected JSON, got bytes that are no text", 500),
        ]
        messages += [
            self._parked("invalid_arguments", BODY, f"expected a path, got none: {number}", 600 + number)
            for number in range(9)
        ]
        await self.store.park(messages)

    def _parked(self, reason: str, body: bytes, detail: str, ago: int) -> ParkedMessage:
        return parked_message(
            reason=reason,
            detail=detail,
            body=body,
            parked_at=self.now - timedelta(seconds=ago),
            exchange="warrener.requests",
            routing_key="no.such",
            message_id="m-1",
            type="job.requested.v1",
            headers={"x-note": HOSTILE, "authorization": "Bearer hunter2hunter2"},
        )

    async def put_breakers(self) -> None:
        """An open breaker, and one that has closed again."""
        closed = {"state": BreakerState.CLOSED, "until": None, "reason": "closed by ada: works again"}
        await self.store.put_breaker(open_breaker("dependency:billing-api"))
        await self.store.put_breaker(open_breaker("job:fares.fetch", **closed))


def _before(job: JobRow) -> JobRow:
    """The job before its last change."""
    return evolve(
        job,
        version=1,
        state=JobState.QUEUED,
        finished_at=None,
        started_at=None,
        agent_id=None,
        lease_until=None,
        error=None,
        progress=None,
        progress_note=None,
        wake_at=job.accepted_at,
    )


def _tick(schedule: str, nominal: datetime, job: JobRow | None, status: TickStatus, reason: str) -> TickRow:
    return tick_row(
        schedule,
        nominal,
        status,
        decided_at=nominal + timedelta(milliseconds=30),
        reason=reason,
        job_id=None if job is None else job.job_id,
        fired_at=None if job is None else nominal + timedelta(milliseconds=45),
    )
