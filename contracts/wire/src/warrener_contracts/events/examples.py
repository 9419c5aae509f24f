"""Values that the golden examples share: one day at an airline that loads its flights."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from warrener_contracts.policy import Backoff, JobPolicy, PolicyOverrides

NOON = datetime(2013, 1, 1, 12, 0, tzinfo=UTC)
JOB = UUID("019440f7-3a00-7c3e-8f21-5b0a4d9e6c11")
PARENT = UUID("019440f7-2c10-7b42-a9d0-1f6e83c7b205")
AGENT_ID = "loader-7c9f.4121"
BREAKER = "dependency:billing-api"
SCHEDULE = "flights.hourly"
OPERATIONS, CONSOLE, ANN = "airline/operations", "airline/console", "ann@airline.example"
BY_SCHEDULER, BY_SUPERVISOR, BY_AGENT = (
    "warrener/scheduler",
    "warrener/supervisor",
    f"warrener/agent/{AGENT_ID}",
)
ARGUMENTS = {"path": "flights/2013-01-01.csv", "carrier": None, "columns": ["dep_delay", "arr_delay"]}
RESULT = {"rows": 842, "origin": {"EWR": 305, "JFK": 297, "LGA": 240}, "first_departure": None}
BACKOFF = Backoff(first=timedelta(seconds=2), factor=2.0, limit=timedelta(minutes=5), jitter=0.1)
POLICY = JobPolicy(
    max_attempts=5,
    max_lost_attempts=3,
    timeout=timedelta(minutes=2),
    start_timeout=timedelta(minutes=30),
    backoff=BACKOFF,
)
OVERRIDES = PolicyOverrides(
    max_attempts=3,
    timeout=timedelta(minutes=1),
    start_timeout=timedelta(minutes=10),
    backoff=BACKOFF,
)


def at(seconds: float) -> datetime:
    """The moment so many seconds after noon."""
    return NOON + timedelta(seconds=seconds)


def envelope(
    number: int, source: str, seconds: float, subject: UUID | str = JOB, event_id: str = ""
) -> dict[str, Any]:
    """The CloudEvents attributes of the example with this number, sent so many seconds after noon."""
    return {
        "id": event_id or f"019440f7-{0x4000 + number:04x}-7000-8000-00000000{number:04x}",
        "source": source,
        "time": at(seconds),
        "subject": str(subject),
        "traceparent": f"00-5b8efff798038103d269b633813fc60c-eee19b7ec3c1{number:04x}-01",
        "tracestate": "airline=ops",
        "baggage": "airport=JFK",
    }


def attempt(number: int = 1) -> dict[str, Any]:
    """The fields that name an attempt."""
    return {"job_id": JOB, "attempt": number, "job_type": "flights.load", "agent_id": AGENT_ID}
