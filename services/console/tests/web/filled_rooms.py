"""A store with content for the pages: schedules, agents, queues, incidents, parked messages, breakers; and a
week of statistics, in which a job type fails since a deploy and others go well."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import pi, sin
from random import Random
from typing import Any
from uuid import UUID, uuid4

from tests import store_rows

from warrener_contracts.circuit_breaker import BreakerState
from warrener_contracts.events import ErrorInfo, ErrorKind, SchedulePutData, TickStatus
from warrener_contracts.identity import schedule_source
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
from warrener_store.gates.rows import GateWaiter, SlotClaim
from warrener_store.incidents.rows import PolicyAdoption, PolicyHistory, PolicyVersionRow, RaisedIncident
from warrener_store.jobs.rows import AttemptOutcome, JobRow, Save, evolve
from warrener_store.parked.rows import ParkedMessage
from warrener_store.schedules.rows import ScheduleRow, TickRow
from warrener_store.statistics.rollup import KnownNames, add_to_stored, roll_up
from warrener_store.statistics.rows import Deploy, EndedJob, RollupPosition

from .stored_jobs import attempt, open_breaker, put_dead, put_queued, put_running

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
STEPS_OF_TICKS = {
    "billing.nightly-close": DAY,
    "fares.refresh": 5 * MINUTE,
    "flights.hourly": HOUR,
    "mail.digest": DAY,
    "sensors.poll": timedelta(seconds=30),
    "reports.after-load": HOUR,
}
TYPES = tuple(sorted({each[3] for each in RULES}))
SKIPPED = "skipped: the job of the tick before still runs"
LATE = "late by 4.1 s: the broker was away"
ERROR = ErrorInfo(kind=ErrorKind.ERROR, type="TimeoutError", message="no answer within 30 s")
BODY = (
    b'{"specversion":"1.0","type":"job.requested.v1","data":{"job_type":"no.such",'
    b'"arguments":{"password":"hunter2","q":"<script>alert(1)</script>"}}}'
)
HALF_PAIR = rb'{"password": "hunter2", "text": "\ud800"}'
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
    def __init__(self, store: Store, now: datetime) -> None:
        self.store, self.now = store, now
        self._random = Random(7)

    async def fill(self) -> None:
        await self.put_agents()
        await self.put_schedules()
        await self.put_queued_jobs()
        await self.put_incidents()
        await self.put_parked()
        await self.put_breakers()
        await self.put_gates()
        await self.store.record_action(store_rows.recorded_action("flights.hourly", action="schedule.pause"))

    async def put_schedules(self) -> None:
        await self.store.put_schedules([self._schedule(*each) for each in RULES])
        why = "the template is being rewritten"
        await self.store.pause_schedules(["mail.digest"], self.now, paused=True, why=why)
        for name, step in STEPS_OF_TICKS.items():
            await self.put_runs(name, step, 400 if step < DAY else 24)

    def _schedule(self, name: str, rule: Rule, zone: str, job_type: str, owner: str | None) -> ScheduleRow:
        over = name == "release.party"
        next_at = self.now + (-10 * MINUTE if name == "sensors.poll" else len(name) * MINUTE)
        never = over or isinstance(rule, AfterRule | EventRule)
        return ScheduleRow(
            definition=definition(name, rule, zone, job_type, owner),
            put_at=self.now - 40 * DAY,
            zone_version="2026a",
            next_at=None if never else next_at,
            wake_at=None if never else next_at,
            runs=1 if over else 960 + len(name),
        )

    async def put_runs(self, name: str, step: timedelta, count: int) -> None:
        first = self.now.replace(minute=30 if step >= HOUR else 0, second=0, microsecond=0) - step * count
        jobs: list[JobRow] = []
        ticks: list[TickRow] = []
        for number in range(count):
            nominal, chance = first + step * number, self._random.random()
            decided = {"decided_at": nominal + timedelta(milliseconds=30)}
            if chance < 0.04:
                ticks.append(
                    store_rows.tick_row(name, nominal, TickStatus.SKIPPED, reason=SKIPPED, **decided)
                )
                continue
            seconds = 20 + 25 * self._random.random() + (60 if chance > 0.97 else 0)
            state = JobState.DEAD if 0.04 <= chance < 0.1 else JobState.SUCCEEDED
            if number == count - 1 and name == "flights.hourly":
                state = JobState.RUNNING
            jobs.append(self._job(name, nominal, seconds, state))
            fired = {"job_id": jobs[-1].job_id, "fired_at": nominal + timedelta(milliseconds=45), **decided}
            why = "" if chance < 0.9 else LATE
            ticks.append(store_rows.tick_row(name, nominal, TickStatus.FIRED, reason=why, **fired))
        await self.store.insert_jobs([_before(job) for job in jobs])
        await self.store.save_jobs([Save(job) for job in jobs])
        await self.store.add_ticks(ticks)
        await self.store.mark_ticks([tick.key for tick in ticks if tick.job_id], self.now)

    def _job(self, name: str, nominal: datetime, seconds: float, state: JobState) -> JobRow:
        job_type = next(each[3] for each in RULES if each[0] == name)
        accepted, dispatched, started = (nominal + timedelta(milliseconds=each) for each in (20, 50, 80))
        if state.terminal:
            rest: dict[str, Any] = {"finished_at": started + timedelta(seconds=seconds), "wake_at": None}
        else:
            rest = {"lease_until": self.now + MINUTE, "wake_at": self.now + MINUTE, "progress": 0.42}
            rest["progress_note"] = f"file 42 of 100 {HOSTILE}"
        return store_rows.waiting_job(
            job_type=job_type,
            queue="loading" if job_type == "flights.load" else "default",
            source=f"warrener/schedule/{name}",
            requested_at=nominal,
            accepted_at=accepted,
            state=state,
            version=2,
            attempt=1,
            agent_id="loader-1",
            dispatched_at=dispatched,
            started_at=started,
            error=ERROR if state is JobState.DEAD else None,
            updated_at=self.now,
            **rest,
        )

    async def put_agents(self) -> None:
        """Agents in each state, and the job types that they announce."""
        await self.store.put_job_types([self._job_type(name) for name in TYPES])
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
        plain = {"started_at": self.now - 3 * DAY, "last_seen_at": self.now - timedelta(seconds=1)}
        slots = dict.fromkeys(queues, max(10 - running, 0))
        fields = {"queues": queues, "running": running, "job_types": TYPES, "free_slots": slots}
        return store_rows.agent_row(name, **(fields | plain | changes))

    def _job_type(self, name: str) -> JobTypeRow:
        return store_rows.job_type_row(
            name,
            queue="loading" if name == "flights.load" else "default",
            arguments_schema={"type": "object"},
            policy=JobPolicy(depends_on=("billing-api",)) if name == "ledger.close" else JobPolicy(),
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
        end = attempt(lost, 1, 3600, verdict=verdict, error=None)
        end = replace(end, outcome=AttemptOutcome.LOST, agent_id="loader-1")
        fields: dict[str, Any] = dict.fromkeys(("agent_id", "started_at", "lease_until"))
        fields["due_at"] = self.now + MINUTE
        again = evolve(lost, version=2, state=JobState.RETRYING, attempt=2, losses=1, **fields)
        await self.store.save_jobs([Save(again, attempt=end)])

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
            self._raised(f"{kind}:{subject}", kind, subject, job_type, ago)
            for kind, subject, job_type, ago in (
                ("schedule.overdue", "sensors.poll", "sensors.read", 10 * MINUTE),
                ("agent.lost", "loader-1", None, HOUR),
                ("queue.mixed", HOSTILE, None, 2 * DAY),
            )
        ]
        await incidents.raise_incidents(raised)
        for row in await incidents.claim_incidents(self.now + HOUR, self.now + 2 * HOUR, "test", 50):
            if row.kind != "job.dead":
                continue
            adoption = PolicyAdoption(name="payments", version=version.version, since=row.first_seen_at)
            due = row.first_seen_at + timedelta(minutes=6, seconds=4) + HOUR
            history = PolicyHistory(adoptions=(adoption,))
            follows = replace(row, policy_version=version.version, policy_history=history, step=2)
            assert await incidents.save_incident(replace(follows, due_at=due, wake_at=due))

    def _raised(
        self, fingerprint: str, kind: str, subject: str, job_type: str | None, ago: timedelta
    ) -> RaisedIncident:
        message = f"no answer of the billing API within 30 s {HOSTILE}"
        is_death = kind == "job.dead"
        error = {"type": "TimeoutError", "message": message}
        return store_rows.raised_incident(
            fingerprint,
            subject if is_death else "",
            kind=kind,
            subject=subject,
            job_type=job_type,
            sample={"error": error} if is_death else {"text": f"{kind} of {subject}"},
            raised_at=self.now - ago,
        )

    async def put_parked(self) -> None:
        """Messages of several reasons; one is hostile, one no text, two have a secret."""
        reasons = [
            ("unknown_job_type", BODY, "no agent has announced no.such", 5),
            ("not_json", f"{{ {HOSTILE}".encode(), f"expected JSON, got {{ {HOSTILE}", 50),
            ("not_json", bytes(range(256)), "expected JSON, got bytes that are no text", 500),
            ("not_an_event", HALF_PAIR, "expected an event", 550),
            *(
                ("invalid_arguments", BODY, f"expected a path, got none: {number}", 600 + number)
                for number in range(9)
            ),
        ]
        plain: dict[str, Any] = {"exchange": "warrener.requests", "routing_key": "no.such"}
        plain |= {"message_id": "m-1", "type": "job.requested.v1"}
        plain["headers"] = {"x-note": HOSTILE, "authorization": "Bearer hunter2hunter2"}
        messages: list[ParkedMessage] = []
        for reason, body, detail, ago in reasons:
            parked_at = self.now - timedelta(seconds=ago)
            fields: dict[str, Any] = plain | {"reason": reason, "body": body, "detail": detail}
            messages.append(store_rows.parked_message(parked_at=parked_at, **fields))
        await self.store.park(messages)

    async def put_breakers(self) -> None:
        closed = {"state": BreakerState.CLOSED, "until": None, "reason": "closed by ada: works again"}
        await self.store.put_breaker(open_breaker("dependency:billing-api"))
        await self.store.put_breaker(open_breaker("job:fares.fetch", **closed))

    async def put_gates(self) -> None:
        """A gate of a pool with a job that holds a slot and one in line."""
        gates = (("pool/crm/acme", 2),)
        claims = [SlotClaim(UUID(int=number), 1, self.now, gates) for number in (1, 2)]
        await self.store.take_slots(claims[:1], self.now, fresh=True)
        await self.store.add_waiters([GateWaiter(claims[1].job_id, gates[0][0], self.now)])


def _before(job: JobRow) -> JobRow:
    """The job before its last change."""
    later = ("finished_at", "started_at", "agent_id", "lease_until", "error", "progress", "progress_note")
    fields: dict[str, Any] = {"state": JobState.QUEUED, "wake_at": job.accepted_at, **dict.fromkeys(later)}
    return evolve(job, version=1, **fields)


# -- statistics ----------------------------------------------------------------------------------------------

DEPLOYED, BEGAN = 52 * MINUTE, 40 * MINUTE
KEY_ERROR = "4be0a1c2d3e4"
ENDING = (  # name, jobs an hour, seconds of a job, share that dies, fingerprint and error of the deaths
    ("flights.load", 66.0, 1.4, 0.004, "11aa22bb33cc", "TimeoutError"),
    ("mail.send", 102.0, 0.12, 0.002, "77dd88ee99ff", "SMTPServerDisconnected"),
    ("reports.make", 18.0, 18.0, 0.012, "0a0b0c0d0e0f", "OutOfMemory"),
    ("fares.fetch", 36.0, 0.7, 0.0, "", ""),
    ("ledger.close", 1.8, 94.0, 0.0, "", ""),
)


class StatisticsFiller:
    def __init__(self, store: Store, now: datetime) -> None:
        self.store, self.now = store, now
        self._random = Random(11)

    async def fill(self) -> None:
        jobs = sorted(self._jobs(), key=lambda job: job.finished_at)
        increments = roll_up(jobs, self._version_of, KnownNames(), self.now)
        buckets, causes = add_to_stored(increments, (), ())
        until = self.now - MINUTE
        position = RollupPosition(revision=1, finished_at=until, job_id=UUID(int=0), complete_until=until)
        assert await self.store.statistics.add_statistics(position, buckets, causes)
        await self.store.statistics.put_deploys(list(self._deploys()))
        # The first dead letters of the new cause.
        error = ErrorInfo(kind=ErrorKind.ERROR, type="KeyError", message=f"'origin' {HOSTILE}")
        for number in range(12):
            seconds = (BEGAN - timedelta(seconds=20 + 90 * number)).total_seconds()
            await put_dead(self.store, seconds, fingerprint=KEY_ERROR, error=error)

    def _jobs(self) -> Iterator[EndedJob]:
        for name, rate, seconds, dying, fingerprint, error in ENDING:
            at = self.now - 7 * DAY
            while at < self.now - MINUTE:
                day = 1 + 0.6 * sin(2 * pi * (at.timestamp() % 86_400) / 86_400)
                at += timedelta(seconds=self._random.expovariate(rate * day / 3600))
                yield self._job(name, min(at, self.now - MINUTE), seconds, dying, (fingerprint, error))

    def _job(self, name: str, at: datetime, seconds: float, dying: float, death: tuple[str, str]) -> EndedJob:
        chance, spread = self._random.random(), self._random.lognormvariate(0, 0.35)
        fails = name == "flights.load" and at >= self.now - BEGAN
        if fails and chance < 0.31:
            death = (KEY_ERROR, "KeyError")
        is_dead = chance < (0.31 if fails else dying)
        if name == "flights.load" and at >= self.now - DEPLOYED:
            spread *= 1.8
        started = at - timedelta(seconds=seconds * spread)
        return EndedJob(
            job_id=UUID(int=self._random.getrandbits(128)),
            job_type=name,
            state=JobState.DEAD if is_dead else JobState.CANCELLED if chance > 0.998 else JobState.SUCCEEDED,
            source=schedule_source("flights.hourly") if name == "flights.load" else "shop",
            agent_id="loader-1",
            failures=3 if is_dead else 1 if chance > 0.97 else 0,
            losses=1 if 0.5 < chance < 0.501 else 0,
            dispatched_at=started - timedelta(seconds=0.02 * spread + (4 if fails else 0)),
            started_at=started,
            ran_until=at,
            finished_at=at,
            fingerprint=death[0] if is_dead else "",
            error_type=death[1] if is_dead else "",
            message=f"'origin' {HOSTILE}" if is_dead else "",
        )

    def _version_of(self, agent_id: str | None, moment: datetime) -> str:
        del agent_id
        if moment >= self.now - DEPLOYED:
            return "1.4.2"
        return "1.4.1" if moment >= self.now - 3 * DAY else "1.4.0"

    def _deploys(self) -> Iterator[Deploy]:
        since = {"1.4.0": 20 * DAY, "1.4.1": 3 * DAY, "1.4.2": DEPLOYED}
        for name, *_ in ENDING:
            for version, ago in since.items():
                is_new = version == "1.4.2" and name == "flights.load"
                yield Deploy(
                    job_type=name,
                    first_seen_at=self.now - ago,
                    code_version=version,
                    last_seen_at=self.now,
                    schema_hash="new" if is_new else "old",
                )
