"""Completions and failures as the columns of a row. JSON stands in text columns: PostgreSQL's own JSON type
would refuse an escaped NUL, and a result is kept as it was written."""

import json
from collections.abc import Sequence
from datetime import datetime

from warrener_agent.ledger.port import Claim, Failure, FollowUp


def encode_follow_ups(follow_ups: Sequence[FollowUp]) -> str:
    """The follow-ups as a column."""
    if not follow_ups:
        return "[]"
    return json.dumps([[one.key, one.request.decode()] for one in follow_ups], separators=(",", ":"))


def encode_failure(failure: Failure) -> str:
    """A failure as a column."""
    details = [failure.details, failure.started_at.isoformat(), failure.finished_at.isoformat()]
    return json.dumps(details, separators=(",", ":"))


def decode_failure(claim: Claim, column: str | None) -> Failure | None:
    """The failure of the attempt that the row is about, if it has failed."""
    if column is None:
        return None
    details, started_at, finished_at = json.loads(column)
    return Failure(
        claim.job_id,
        claim.attempt,
        details,
        datetime.fromisoformat(started_at),
        datetime.fromisoformat(finished_at),
    )


def decode_follow_ups(column: str) -> tuple[FollowUp, ...]:
    """The follow-ups again."""
    return tuple(FollowUp(key, request.encode()) for key, request in json.loads(column))
