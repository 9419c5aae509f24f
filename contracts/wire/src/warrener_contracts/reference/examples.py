"""One golden example of each event: complete, so that every field is seen, and as it might be on a
Tuesday."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from types import MappingProxyType
from typing import Any
from uuid import UUID

from warrener_contracts import events as e
from warrener_contracts.circuit_breaker import BreakerState
from warrener_contracts.identity import tick_job_id
from warrener_contracts.policy import Backoff, Guarantee, JobPolicy, PolicyOverrides
from warrener_contracts.registry import type_of
from warrener_contracts.schedule_rules import CronRule, MisfirePolicy, OverlapPolicy, ScheduleChoices
from warrener_contracts.states import JobState

_NOON = datetime(2013, 1, 1, 12, 0, tzinfo=UTC)
_JOB = UUID("019440f7-3a00-7c3e-8f21-5b0a4d9e6c11")
_PARENT = UUID("019440f7-2c10-7b42-a9d0-1f6e83c7b205")
_AGENT = "loader-7c9f.4121"
_SCHEDULER, _SUPERVISOR = "warrener/scheduler", "warrener/supervisor"
_ARGUMENTS = {"path": "flights/2013-01-01.csv", "carrier": None, "columns": ["dep_delay", "arr_delay"]}
_RESULT = {"rows": 842, "origin": {"EWR": 305, "JFK": 297, "LGA": 240}, "first_departure": None}


def _at(seconds: float) -> datetime:
    return _NOON + timedelta(seconds=seconds)


def _envelope(
    number: int, source: str, seconds: float, subject: UUID | str = _JOB, event_id: str = ""
) -> dict[str, Any]:
    return {
        "id": event_id or f"019440f7-{0x4000 + number:04x}-7000-8000-00000000{number:04x}",
        "source": source,
        "time": _at(seconds),
        "subject": str(subject),
        "traceparent": f"00-5b8efff798038103d269b633813fc60c-eee19b7ec3c1{number:04x}-01",
        "tracestate": "airline=ops",
    }


def _attempt(number: int = 1) -> dict[str, Any]:
    return {"job_id": _JOB, "attempt": number, "job_type": "flights.load", "agent_id": _AGENT}


_ERROR = e.ErrorInfo(
    kind=e.ErrorKind.ERROR,
    type="psycopg.OperationalError",
    message="connection to the flights database was lost while row 512 was written",
    stack='Traceback (most recent call last):\n  File "flights.py", line 31, in load\n    insert(batch)\n',
    retryable=True,
)
_DAMAGED = e.ErrorInfo(
    kind=e.ErrorKind.BAD_ARGUMENTS,
    type="flights.WrongHeader",
    message="expected the column dep_delay, got departure_delay: the file is not of this year's form",
    stack='Traceback (most recent call last):\n  File "flights.py", line 19, in load\n    check(header)\n',
    retryable=False,
)
_POLICY = JobPolicy(
    max_attempts=5,
    max_losses=3,
    timeout=timedelta(minutes=2),
    start_timeout=timedelta(minutes=30),
    backoff=Backoff(first=timedelta(seconds=2), factor=2.0, limit=timedelta(minutes=5), jitter=0.1),
)
_CHOSEN = PolicyOverrides(
    max_attempts=3,
    timeout=timedelta(minutes=1),
    start_timeout=timedelta(minutes=10),
    backoff=_POLICY.backoff,
)
_SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "required": ["path"],
    "additionalProperties": True,
}


def _requests() -> Iterable[e.Event[Any]]:
    return [
        e.JobRequested(
            **_envelope(1, "airline/operations", 0, event_id=str(_JOB)),
            data=e.JobRequestedData(
                job_type="flights.load",
                arguments=_ARGUMENTS,
                queue="loading",
                idempotency_key="flights-2013-01-01",
                not_before=_at(60),
                delay=timedelta(seconds=30),
                deadline=_at(7200),
                expires_after=timedelta(hours=2),
                parent_id=_PARENT,
                reply_to="operations-desk-4",
                policy=_CHOSEN,
            ),
        ),
        e.JobCancelRequested(
            **_envelope(2, "airline/operations", 5),
            data=e.JobCancelRequestedData(
                job_id=_JOB, reason="the file is being delivered again", reply_to="operations-desk-4"
            ),
        ),
        e.BreakerSetRequested(
            **_envelope(30, "airline/operations", 20, "dependency:billing-api"),
            data=e.BreakerSetRequestedData(
                name="dependency:billing-api",
                state=BreakerState.OPEN,
                open_for=timedelta(minutes=30),
                reason="the billing API is being upgraded",
            ),
        ),
        e.AgentAnnounced(
            **_envelope(3, f"warrener/agent/{_AGENT}", -60, _AGENT),
            data=e.AgentAnnouncedData(
                agent_id=_AGENT,
                queues=("loading", "default"),
                job_types=(
                    e.JobTypeDeclaration(
                        name="flights.load",
                        queue="loading",
                        arguments_schema=_SCHEMA,
                        result_schema={"type": "object", "properties": {"rows": {"type": "integer"}}},
                        guarantee=Guarantee.TRANSACTIONAL,
                        policy=_POLICY,
                        description="Loads the flights of one day into the database.",
                    ),
                ),
            ),
        ),
    ]


def _dispatch() -> list[e.Event[Any]]:
    return [
        e.AttemptDispatched(
            **_envelope(4, _SCHEDULER, 0.02),
            data=e.AttemptDispatchedData(
                job_id=_JOB,
                attempt=1,
                job_type="flights.load",
                queue="loading",
                arguments=_ARGUMENTS,
                guarantee=Guarantee.TRANSACTIONAL,
                timeout=timedelta(minutes=1),
                max_attempts=3,
                deadline=_at(7200),
                requested_at=_NOON,
                not_before=_at(60),
            ),
        ),
        e.AttemptCancel(
            **_envelope(5, _SUPERVISOR, 6),
            data=e.AttemptCancelData(job_id=_JOB, attempt=1, reason="the file is being delivered again"),
        ),
    ]


def _status() -> list[e.Event[Any]]:
    agent = f"warrener/agent/{_AGENT}"
    ran: dict[str, Any] = {**_attempt(), "started_at": _at(61), "finished_at": _at(63.5)}
    return [
        e.AttemptStarted(
            **_envelope(6, agent, 61.5), data=e.AttemptStartedData(**_attempt(), started_at=_at(61))
        ),
        e.AttemptProgressed(
            **_envelope(7, agent, 62),
            data=e.AttemptProgressedData(**_attempt(), fraction=0.6, note="row 512 of 842"),
        ),
        e.AttemptCheckpointed(
            **_envelope(22, agent, 62.2),
            data=e.AttemptCheckpointedData(
                **_attempt(),
                saved_at=_at(62.1),
                checkpoint=e.Checkpoint(number=4, state={"row": 512}),
            ),
        ),
        e.AttemptSucceeded(
            **_envelope(8, agent, 63.5),
            data=e.AttemptSucceededData(**ran, result=_RESULT, recorded_attempt=1, follow_ups=2),
        ),
        e.AttemptFailed(
            **_envelope(9, agent, 63.5),
            data=e.AttemptFailedData(**ran, error=_ERROR, retry_after_seconds=10.0),
        ),
        e.AttemptCancelled(
            **_envelope(10, agent, 63.5),
            data=e.AttemptCancelledData(**ran, reason="the file is being delivered again"),
        ),
        e.AttemptReleased(
            **_envelope(11, agent, 62.5),
            data=e.AttemptReleasedData(**_attempt(), reason="the agent drains: it was asked to stop"),
        ),
        e.AttemptTimedOut(
            **_envelope(12, _SUPERVISOR, 131),
            data=e.AttemptTimedOutData(**_attempt(), timeout_seconds=60.0),
        ),
        e.AttemptLost(
            **_envelope(13, _SUPERVISOR, 95),
            data=e.AttemptLostData(**_attempt(), last_seen_at=_at(64), unlisted=True),
        ),
        e.AttemptStartTimedOut(
            **_envelope(14, _SUPERVISOR, 1860),
            data=e.AttemptStartTimedOutData(**_attempt(), dispatched_at=_at(60)),
        ),
        e.JobDeadlinePassed(
            **_envelope(15, _SUPERVISOR, 7201),
            data=e.JobDeadlinePassedData(job_id=_JOB, deadline=_at(7200)),
        ),
        e.AgentHeartbeat(
            **_envelope(16, agent, 65, _AGENT),
            data=e.AgentHeartbeatData(
                agent_id=_AGENT,
                host="loader-7c9f",
                pid=4121,
                queues=("loading", "default"),
                slots=4,
                running=(e.HeartbeatAttempt(job_id=_JOB, attempt=1),),
                started_at=_at(-60),
                draining=False,
            ),
        ),
        e.AgentHeartbeatRequested(
            **_envelope(61, _SUPERVISOR, 71, _AGENT),
            data=e.AgentHeartbeatRequestedData(agent_id=_AGENT),
        ),
    ]


def _answers() -> list[e.Event[Any]]:
    return [
        e.BreakerChanged(
            **_envelope(31, _SUPERVISOR, 64, "dependency:billing-api"),
            data=e.BreakerChangedData(
                name="dependency:billing-api",
                state=BreakerState.OPEN,
                since=_at(64),
                until=_at(94),
                reason="12 of 20 attempts within 1 min have failed",
                job_types=("flights.load",),
            ),
        ),
        e.JobRejected(
            **_envelope(17, _SCHEDULER, 0.01),
            data=e.JobRejectedData(
                request_id=str(_JOB),
                request_source="airline/operations",
                job_id=_JOB,
                job_type="flights.load",
                reason=e.Reason.BAD_ARGUMENTS,
                detail='expected "path" to be a string, got 17: see the schema of flights.load',
            ),
        ),
        e.JobDeduplicated(
            **_envelope(18, _SCHEDULER, 0.01),
            data=e.JobDeduplicatedData(
                requested_job_id=UUID("019440f7-5b77-7e01-9c44-2a7d90f3b318"),
                job_id=_JOB,
                idempotency_key="flights-2013-01-01",
            ),
        ),
        e.JobFinished(
            **_envelope(19, _SUPERVISOR, 63.6),
            data=e.JobFinishedData(
                job_id=_JOB,
                job_type="flights.load",
                state=JobState.SUCCEEDED,
                attempt=1,
                result=_RESULT,
                parent_id=_PARENT,
                requested_at=_NOON,
                finished_at=_at(63.5),
            ),
        ),
        e.JobRetrying(
            **_envelope(20, _SUPERVISOR, 63.6),
            data=e.JobRetryingData(
                job_id=_JOB, job_type="flights.load", next_attempt=2, due_at=_at(73.5), error=_ERROR
            ),
        ),
        e.JobWaiting(
            **_envelope(52, _SUPERVISOR, 40),
            data=e.JobWaitingData(
                job_id=_JOB,
                job_type="flights.load",
                attempt=1,
                queue="loading",
                reason="dispatch queue loading takes no messages: it is full or without a quorum",
                since=_at(20),
            ),
        ),
        e.JobDead(
            **_envelope(21, _SUPERVISOR, 63.6),
            data=e.JobDeadData(
                job_id=_JOB,
                job_type="flights.load",
                attempts=1,
                reason="no retry can mend it: flights.WrongHeader",
                error=_DAMAGED,
            ),
        ),
    ]


def _alarms() -> list[e.Event[Any]]:
    return [
        e.AgentLost(
            **_envelope(50, _SUPERVISOR, 90, _AGENT),
            data=e.AgentLostData(
                agent_id=_AGENT,
                host="loader-7c9f",
                pid=4121,
                queues=("loading", "default"),
                running=3,
                last_seen_at=_at(80),
            ),
        ),
        e.ServiceUnresponsive(
            **_envelope(51, _SUPERVISOR, 120),
            data=e.ServiceUnresponsiveData(
                service="agent", queue="warrener.queue.loading", waiting=17, since=_at(100)
            ),
        ),
    ]


def _dead_letters() -> list[e.Event[Any]]:
    campaign = UUID("019440f7-9d20-7f31-8a64-4c1be07d25a9")
    which = e.DeadLetterSelection(
        job_ids=(_JOB,),
        fingerprint="9f86d081884c",
        job_type="flights.load",
        died_after=_NOON,
        died_before=_at(86_400),
    )
    return [
        e.JobRedriveRequested(
            **_envelope(22, "airline/operations", 90_000, campaign, str(campaign)),
            data=e.JobRedriveRequestedData(
                which=which,
                limit=5000,
                edits={"columns": ["departure_delay", "arr_delay"], "carrier": None},
                queue="loading",
                policy=PolicyOverrides(
                    max_attempts=3,
                    timeout=timedelta(minutes=1),
                    start_timeout=timedelta(minutes=10),
                    backoff=_POLICY.backoff,
                ),
                canary=20,
                rate=50.0,
                tolerate=1,
                even_if_succeeded=True,
                dry_run=True,
                by="ann@operations",
                reason="the new form of the files is read since release 42",
            ),
        ),
        e.JobDropRequested(
            **_envelope(23, "airline/operations", 90_060),
            data=e.JobDropRequestedData(
                which=which, by="ann@operations", reason="the airline has withdrawn these files"
            ),
        ),
        e.RedriveChangeRequested(
            **_envelope(24, "airline/operations", 90_120, campaign),
            data=e.RedriveChangeRequestedData(
                campaign_id=campaign, change="stop", by="ann@operations", reason="the database is slow today"
            ),
        ),
    ]


def _schedules() -> list[e.Event[Any]]:
    named = e.ScheduleCommandData(name="flights.hourly", reason="the airport is closed")

    def request_envelope(number: int) -> dict[str, Any]:
        return _envelope(number, "airline/operations", 10, "flights.hourly")

    return [
        e.SchedulePut(
            **request_envelope(52),
            data=e.SchedulePutData(
                name="flights.hourly",
                rule=CronRule(expression="30 * * * MON-FRI"),
                timezone="America/New_York",
                job_type="flights.load",
                arguments=_ARGUMENTS,
                queue="loading",
                policy=_CHOSEN,
                choices=ScheduleChoices(
                    misfire=MisfirePolicy.WINDOW,
                    catch_up_window=timedelta(hours=2),
                    overlap=OverlapPolicy.QUEUE_ONE,
                    jitter=timedelta(seconds=5),
                    start=_NOON,
                    end=_at(31_536_000),
                    max_runs=5000,
                ),
                reply_to="operations-desk-4",
            ),
        ),
        e.SchedulePauseRequested(**request_envelope(53), data=named),
        e.ScheduleResumeRequested(**request_envelope(54), data=named),
        e.ScheduleRemoveRequested(**request_envelope(55), data=named),
        e.ScheduleTriggerRequested(**request_envelope(56), data=named),
        e.ScheduleBackfillRequested(
            **request_envelope(65),
            data=e.ScheduleBackfillRequestedData(
                name="flights.hourly",
                begin=_at(-86_400),
                end=_NOON,
                rate=2.5,
                reason="the files of the day were mended",
                not_before=_at(60),
                reply_to="operations-desk-4",
            ),
        ),
        e.ScheduleTicked(
            **_envelope(57, _SCHEDULER, 1800.004, "flights.hourly"),
            data=e.ScheduleTickedData(
                name="flights.hourly",
                nominal_at=_at(1800),
                fate=e.TickStatus.CAUGHT_UP,
                reason="it was due while no scheduler ran",
                job_id=tick_job_id("flights.hourly", _at(1800)),
                late_seconds=0.004,
            ),
        ),
    ]


def _cases() -> list[e.Event[Any]]:
    case, ann, console = "3f9a1c77e0b2", "ann@airline.example", "airline/console"
    return [
        e.IncidentAcknowledgeRequested(
            **_envelope(41, console, 300, case),
            data=e.IncidentAcknowledgeRequestedData(fingerprint=case, by=ann),
        ),
        e.IncidentSnoozeRequested(
            **_envelope(42, console, 301, case),
            data=e.IncidentSnoozeRequestedData(fingerprint=case, by=ann, until=_at(7200)),
        ),
        e.IncidentCloseRequested(
            **_envelope(43, console, 302, case),
            data=e.IncidentCloseRequestedData(fingerprint=case, by=ann, reason="the disk has been replaced"),
        ),
    ]


def _parked() -> list[e.Event[Any]]:
    ids, ann, console = ("7d1b9f52-5f0e-5d4b-9c39-0a8f6a3b1c44",), "ann@airline.example", "airline/console"
    return [
        e.ParkedRequeueRequested(
            **_envelope(44, console, 303), data=e.ParkedRequeueRequestedData(ids=ids, by=ann)
        ),
        e.ParkedDropRequested(
            **_envelope(45, console, 304),
            data=e.ParkedDropRequestedData(ids=ids, by=ann, reason="sent by a test"),
        ),
    ]


@cache
def golden_events() -> Mapping[str, e.Event[Any]]:
    """The example of each event, by its CloudEvents `type`."""
    examples = [
        *_requests(),
        *_dispatch(),
        *_status(),
        *_answers(),
        *_alarms(),
        *_cases(),
        *_parked(),
        *_dead_letters(),
        *_schedules(),
    ]
    return MappingProxyType({type_of(type(event)): event for event in examples})
