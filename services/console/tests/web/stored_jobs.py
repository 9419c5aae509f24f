"""Jobs for the tests of pages: put into the store as the services put them."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from tests import store_rows

from warrener_contracts.events import ErrorInfo, ErrorKind, LogEntry, Suspension
from warrener_contracts.state_machine import JobState
from warrener_store import Store
from warrener_store.agents.rows import JobTypeRow
from warrener_store.breakers.gate import BreakerRow
from warrener_store.jobs.rows import AttemptOutcome, AttemptRow, JobRow
from warrener_store.logs.rows import LogLimit
from warrener_store.workflows.rows import TurnRow

HOSTILE = "<script>alert(1)</script>"
FINGERPRINT = "9f86d081884c"
AGENT = "loader-7f3a"
ERROR = ErrorInfo(
    kind=ErrorKind.ERROR,
    type="flights.days.Damaged",
    message=f"expected 19 values, got 7 {HOSTILE}",
    stack=f'Traceback:\n  File "flights.py", line 31, in load\n{HOSTILE}\nflights.days.Damaged: 19',
)


def ago(seconds: float) -> datetime:
    return datetime.now(UTC) - timedelta(seconds=seconds)


def _all_at(seconds: float, *names: str) -> dict[str, Any]:
    return {f"{name}_at": ago(seconds) for name in names}


async def put(store: Store, row: JobRow) -> JobRow:
    await store.insert_jobs([row])
    return row


async def put_waiting(store: Store, seconds: float = 60, **fields: Any) -> JobRow:
    times = _all_at(seconds, "requested", "accepted", "updated") | _all_at(-600, "due", "wake")
    return await put(store, store_rows.waiting_job(**(times | fields)))


async def put_queued(store: Store, seconds: float = 60, **fields: Any) -> JobRow:
    times = _all_at(seconds, "requested", "accepted", "dispatched", "updated")
    return await put(store, store_rows.queued_job(**(times | fields)))


async def put_running(store: Store, seconds: float = 60, **fields: Any) -> JobRow:
    """A job that was requested so many seconds ago, and runs."""
    times = _all_at(seconds, "requested", "accepted", "dispatched") | _all_at(-60, "wake")
    times |= _all_at(seconds - 0.5, "started", "updated") | {"lease_until": ago(-60), "agent_id": AGENT}
    return await put(store, store_rows.running_job(**(times | fields)))


async def put_succeeded(store: Store, seconds: float = 60, **fields: Any) -> JobRow:
    """A job that was requested so many seconds ago, and has succeeded."""
    over = store_rows.succeeded(await put_running(store, seconds, **fields), {"rows": 842})
    assert over.attempt is not None
    end = _all_at(seconds - 2, "finished")
    save = replace(over, row=replace(over.row, **end), attempt=replace(over.attempt, **end))
    await store.save_jobs([save])
    return save.row


async def put_dead(
    store: Store,
    seconds: float = 60,
    *,
    fingerprint: str = FINGERPRINT,
    error: ErrorInfo = ERROR,
    **fields: Any,
) -> JobRow:
    """A job that was requested so many seconds ago, and has died at its second attempt."""
    row, due_at, end = await put_running(store, seconds, **fields), ago(seconds - 2), ago(seconds - 3)
    again = store_rows.changed(
        row, state=JobState.RETRYING, attempt=2, failures=1, error=error, due_at=due_at
    )
    first = attempt(row, 1, seconds - 1, verdict=f"retry at {due_at.isoformat()}", error=error)
    await store.save_jobs([replace(again, attempt=first)])
    over = store_rows.died(again.row, error)
    assert over.dead_letter is not None
    last = attempt(row, 2, seconds - 3, verdict="dead: attempts used up", error=error)
    death = replace(over.dead_letter, died_at=end, fingerprint=fingerprint, attempts=2)
    save = replace(over, row=replace(over.row, finished_at=end), attempt=last, dead_letter=death)
    await store.save_jobs([save])
    return save.row


async def put_workflow(store: Store, seconds: float = 60, **fields: Any) -> tuple[JobRow, JobRow]:
    """A workflow that was requested so many seconds ago and waits for a child job, which runs, and for a
    signal; its step is answered. Returns it and the child job."""
    workflow_id = uuid4()
    child = await put_running(store, seconds - 5, job_type="cards.charge", parent_id=workflow_id)
    wake = {"state": JobState.SUSPENDED, "suspensions": 1, "wake_at": ago(-600)}
    plain = {"job_id": workflow_id, "job_type": "orders.fulfil", "arguments": {"order": 17}}
    row = await put_queued(store, seconds, **(plain | wake | fields))
    suspension = Suspension.model_validate(
        {
            "calls": [
                {"call_id": "step/price#1", "kind": "step", "name": "price", "line": "orders.py:38"},
                {
                    "call_id": "job/cards.charge#1",
                    "kind": "job",
                    "name": "cards.charge",
                    "line": "orders.py:41",
                    "job_id": child.job_id,
                    "undo": {"job_type": "cards.refund", "arguments": {"order": 17, "token": "t0ps3cret"}},
                },
                {"call_id": "signal/packed#1", "kind": "signal", "name": "packed", "line": "orders.py:44"},
            ],
            "answers": [
                {"call_id": "step/price#1", "at": ago(seconds - 4), "result": {"euros": 99, "note": HOSTILE}}
            ],
            "began_at": ago(seconds - 3),
            "wake_at": ago(-600),
            "timer_line": "orders.py:45",
        }
    )
    turn = TurnRow(job_id=workflow_id, attempt=1, suspension=suspension, suspended_at=ago(seconds - 4))
    await store.keep_suspensions([turn])
    return row, child


def attempt(row: JobRow, number: int, seconds: float, *, verdict: str, error: ErrorInfo | None) -> AttemptRow:
    """An attempt of a job that has failed so many seconds ago."""
    end = replace(
        store_rows.attempt_of(row, AttemptOutcome.FAILED, error=error), attempt=number, verdict=verdict
    )
    times = _all_at(seconds + 1, "dispatched") | _all_at(seconds + 0.5, "started")
    return replace(end, agent_id=AGENT, finished_at=ago(seconds), **times)


async def put_lines(store: Store, job_id: UUID, number: int, *texts: str) -> None:
    lines = tuple(
        LogEntry(number=index + 1, at=ago(30), level="warning", logger="airline.load", text=text)
        for index, text in enumerate(texts)
    )
    fields = {"attempt": number, "started_at": ago(40), "agent_id": AGENT, "final": True, "lines": lines}
    chunk = store_rows.log_chunk(job_id, 1, *texts, **fields)
    await store.append_logs([chunk], LogLimit(1000, 1_000_000))


def open_breaker(name: str, **fields: Any) -> BreakerRow:
    plain: dict[str, Any] = {"since": ago(240), "until": ago(-60), "times_opened": 2}
    plain |= {"reason": "12 of 20 attempts within 1 min have failed", "job_types": ("ledger.close",)}
    return store_rows.breaker_row(name, **(plain | fields))


def job_type(arguments: dict[str, Any], name: str = "flights.load") -> JobTypeRow:
    """A job type as an agent announces it, with the schemas of its arguments."""
    return store_rows.job_type_row(
        name,
        queue="loading",
        arguments_schema={"type": "object", "properties": arguments, "required": ["path"]},
        description=f"Load a day of flights {HOSTILE}",
        announced_by=AGENT,
        announced_at=ago(3600),
    )
