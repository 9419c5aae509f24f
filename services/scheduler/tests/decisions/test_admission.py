"""The digest of a request: the digested text never changes, whatever code writes it."""

import json
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any
from uuid import UUID

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from warrener_contracts.events import JobRequestedData
from warrener_contracts.policy import Backoff, PolicyOverrides
from warrener_scheduler.decisions.admission import request_digest

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"))  # what a request may hold
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
ERRORS = st.sampled_from([(), ("requests.*",), ("OSError", "Key*")])
PARTS: dict[str, st.SearchStrategy[Any]] = {
    "max_attempts": st.just(2),
    "timeout": st.just(timedelta(minutes=1)),
    "backoff": st.sampled_from(
        [Backoff.fixed("30s"), Backoff.linear("2s", step="5s"), Backoff.listed("5s", "1h")]
    ),
    "max_lost_attempts": st.just(0),
    "max_age": st.just(timedelta(hours=2)),
    "max_snoozes": st.just(0),
    "retry_on": ERRORS,
    "no_retry_on": ERRORS,
}
CHOSEN: dict[str, st.SearchStrategy[Any]] = {
    "arguments": st.dictionaries(TEXTS, VALUES, max_size=3),
    "queue": st.just("later"),
    "idempotency_key": st.text(min_size=1, max_size=20),
    "not_before": st.just(NOON),
    "delay": st.just(timedelta(seconds=90)),
    "deadline": st.just(NOON + timedelta(hours=1)),
    "expires_after": st.just(timedelta(days=1)),
    "parent_id": st.just(UUID(int=7)),
    "reply_to": st.just("me"),
    "policy": st.fixed_dictionaries({}, optional=PARTS).map(PolicyOverrides.model_validate),
}


# A request has many fields: to draw one takes a while where the machine is busy.
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.fixed_dictionaries({}, optional=CHOSEN))
def test_it_is_that_of_all_fields_as_json_but_the_reply_address(chosen: dict[str, Any]) -> None:
    data = JobRequestedData(job_type="flights.load", **chosen)
    fields = data.model_dump(mode="json")
    del fields["reply_to"]
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    assert request_digest(data) == blake2b(text.encode(), digest_size=16).hexdigest()


def test_it_is_the_one_that_earlier_versions_have_stored() -> None:
    data = JobRequestedData(job_type="flights.load", arguments={"b": [1, 2.5, None], "a": "Ø\x7f"})
    assert request_digest(data) == "edec7f9dcac76e0030daadd76d319343"
    terms = JobRequestedData(job_type="flights.load", delay=timedelta(seconds=90), idempotency_key="k")
    assert request_digest(terms) == "19eb93fe16340cdf3d6198d1bbd17efb"
