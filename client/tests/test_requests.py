"""Requests encoded in bulk are, byte for byte, those of the wire's models."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from warrener_client import BadRequest, JobSpec, RequestTooLarge
from warrener_client.requests import BulkEncoder, encode_event
from warrener_contracts.messages import Message
from warrener_contracts.policy import Backoff, PolicyOverrides
from warrener_runtime.telemetry import TraceContext

NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)
TRACE = TraceContext("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "shop=1")
SOURCE, ADDRESS = "shop/web", "0af7651916cd43dd8448eb211c80319c"

Outcome = Message | tuple[type[Exception], str]


class Plane(StrEnum):
    JET = "plane.jet"


class Row(BaseModel):
    day: datetime | None = None
    seats: float = Field(default=3.5, alias="places")


@dataclass
class Leg:
    start: str
    hours: float | None = None


ODD = "\0\ud800é\uf8ff"
json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.text(ODD, max_size=3)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
odd_values = st.sampled_from(
    [
        object(),
        Path("a.csv"),
        NOON,
        timedelta(minutes=2),
        b"bytes",
        b"\xff",
        UUID(int=7),
        Plane.JET,
        (1, None),
        {2},
        Row(),
        Row(places=math.nan),
        Leg("JFK"),
        Leg("JFK", math.inf),
        {1: "one"},
        {math.nan: 1},
        {-math.inf: 1},
        {None: 1},
        {b"k": 1},
    ]
)
arguments: st.SearchStrategy[Any] = st.dictionaries(
    st.text(max_size=5), json_values | odd_values, max_size=3
) | st.sampled_from([Row(), {b"day": 1}, {1: 1}, {Plane.JET: 1}, [("path", "a.csv")], None, 7, "text"])
names = st.text(min_size=1, max_size=8) | st.sampled_from(["x" * 200, "x" * 201, "é" * 200, "\ud800", 'ö"\\'])
ids = st.uuids().map(str) | names
keys: st.SearchStrategy[Any] = st.none() | names | st.sampled_from(["", b"bytes", 7, Plane.JET])
kinds = st.builds(
    JobSpec,
    st.sampled_from(["flights.load", Plane.JET, "flights load", "job.x", "\uf8ff the request's id", b"a", 7]),
    queue=st.sampled_from([None, "hot", "no queue", "\uf8ff the request's key"]),
    delay=st.sampled_from([None, 0, 1, 1.0, True, False, "90s", "soon", timedelta(seconds=1), math.nan]),
    not_before=st.sampled_from([None, NOON, NOON.replace(tzinfo=None), datetime(9999, 1, 1, tzinfo=UTC)]),
    deadline=st.sampled_from([None, NOON + timedelta(hours=1), "2013-01-01T00:00:00+01:00"]),
    expires_after=st.sampled_from([None, "2m", [1]]),
    policy=st.sampled_from(
        [
            None,
            PolicyOverrides(max_attempts=2),
            PolicyOverrides(
                max_lost_attempts=0, max_age=timedelta(hours=2), max_snoozes=0, retry_on=("OSError",)
            ),
            PolicyOverrides(retry_on=(), no_retry_on=()),
            PolicyOverrides(backoff=Backoff.linear("2s", step="5s"), no_retry_on=("requests.*",)),
            PolicyOverrides(backoff=Backoff.listed("5s", "1h", jitter=0)),
            {"max_attempts": 2},
            {"max_attempts": 0},
            {"timeout": "1m"},
            {"max_age": "2h", "max_snoozes": 3, "no_retry_on": ["Key*"], "backoff": {"delays": ["5s", "1h"]}},
            {"retry_on": [""]},
            {"max_attemps": 2},
            {"backoff": {"steps": 2}},
        ]
    ),
    parent_id=st.sampled_from([None, UUID(int=5), str(UUID(int=5)), "nobody"]),
)
contexts = st.sampled_from([TraceContext(), TRACE, TraceContext("malformed", "\0")])


def validated(spec: JobSpec, event_id: str, context: TraceContext) -> Message:
    return encode_event(BulkEncoder(SOURCE, NOON, ADDRESS).build_event(spec, event_id, context))


def outcome(
    way: Callable[[JobSpec, str, TraceContext], Message], spec: JobSpec, name: str, context: TraceContext
) -> Outcome:
    try:
        return way(spec, name, context)
    except Exception as error:  # noqa: BLE001 - whatever one way raises, the other has to raise
        return type(error), str(error)


@given(kinds, contexts, st.lists(st.tuples(arguments, ids, keys), min_size=1, max_size=4))
@example(JobSpec("a.b"), TraceContext(), [({"a": None}, "1", None), ({"b": [1.5, "\ud800"]}, "2", None)])
@example(JobSpec("a.b", delay=1), TraceContext(), [({}, "1", "k"), ({"a": math.inf}, "2", "\0")])
@example(
    JobSpec("a.b"), TraceContext(), [({1: 1}, "1", None), ({Plane.JET: 1}, "2", None), ({b"a": 1}, "3", None)]
)
def test_each_request_is_written_as_its_event_would_be_and_refused_alike(
    kind: JobSpec, context: TraceContext, different: Sequence[tuple[Any, str, Any]]
) -> None:
    encoder = BulkEncoder(SOURCE, NOON, ADDRESS)
    for given_arguments, name, key in different:
        spec = replace(kind, arguments=given_arguments, idempotency_key=key)
        assert outcome(encoder.encode, spec, name, context) == outcome(validated, spec, name, context)


def test_one_is_not_true_even_after_one_was_allowed() -> None:
    encoder = BulkEncoder(SOURCE, NOON, ADDRESS)
    encoder.encode(JobSpec("mail.send", delay=1), "first", TraceContext())
    with pytest.raises(BadRequest, match=r"delay: expected a duration .*, got True"):
        encoder.encode(JobSpec("mail.send", delay=True), "second", TraceContext())


def test_a_request_that_is_too_large_is_refused_on_both_paths() -> None:
    encoder = BulkEncoder(SOURCE, NOON, ADDRESS)
    for _ in range(2):
        with pytest.raises(RequestTooLarge, match=r"at most 1048576 bytes, got \d+ for flights.load"):
            encoder.encode(JobSpec("flights.load", {"csv": "x" * 1024 * 1024}), "1", TraceContext())
