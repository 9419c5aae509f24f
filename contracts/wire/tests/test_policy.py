"""Policies and back-off curves wait as declared, on the wire and in the guide; which errors are retried."""

import json
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from warrener_contracts.events import ErrorInfo, ErrorKind
from warrener_contracts.fields import MAX_DURATION, Duration, parse_duration
from warrener_contracts.policy import Backoff, JobPolicy, PolicyOverrides
from warrener_contracts.retryability import CODE_CHANGED, UNKNOWN_JOB_TYPE, matches_any, non_retryable_reason

SPANS = st.timedeltas(timedelta(0), MAX_DURATION)
CHANCE = st.floats(0, 1, exclude_max=True)


def test_jitter_spreads_it_to_both_sides() -> None:
    backoff = Backoff(first=timedelta(seconds=10), jitter=0.5)
    assert backoff.delay(1, 0.0).total_seconds() == 5
    assert backoff.delay(1, 0.5).total_seconds() == 10
    assert backoff.delay(1, 0.999999).total_seconds() == pytest.approx(15, abs=0.001)


def test_a_request_replaces_what_it_chooses_and_nothing_else() -> None:
    policy = JobPolicy(max_attempts=7, timeout=timedelta(seconds=5), start_timeout=timedelta(seconds=6))
    assert PolicyOverrides().apply_to(policy) == policy
    chosen = PolicyOverrides(max_attempts=1, backoff=Backoff(jitter=0)).apply_to(policy)
    assert chosen == policy.model_copy(update={"max_attempts": 1, "backoff": Backoff(jitter=0)})


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_attempts": 0},
        {"max_attempts": 1001},
        {"max_lost_attempts": -1},
        {"timeout": "0s"},
        {"start_timeout": 0},
        {"timeout": "-1s"},
        {"backoff": {"factor": float("nan")}},
        {"backoff": {"first": float("inf")}},
        {"max_age": "0s"},
        {"max_snoozes": -1},
        {"retry_on": [""]},
        {"no_retry_on": ["x" * 201]},
        {"no_retry_on": "ValueError"},
        {"retry_rules": [{"errors": (), "queue": "other"}]},
        {"retry_rules": [{"errors": ["lost"], "after": 11, "queue": "other"}]},
        {"retry_rules": [{"errors": ["lost"], "queue": "no queue"}]},
        {"retry_rules": [{"errors": ["timeout"], "timeout_factor": 0.5}]},
    ],
)
def test_a_policy_that_could_not_work_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        JobPolicy.model_validate(wrong)


def test_a_request_may_choose_every_part_of_a_policy() -> None:
    # Fields of the job type alone: its handler is written for them.
    of_the_type_alone = {
        "depends_on",
        "breaker",
        "heartbeat_timeout",
        "dispatch_batch",
        "on_failure",
        "public",
        "gates",
        "unique",
        "retry_rules",
        "encrypted",
    }
    assert PolicyOverrides.model_fields.keys() == JobPolicy.model_fields.keys() - of_the_type_alone


def test_a_policy_has_the_fields_of_version_1_0_until_more_are_chosen() -> None:
    of_1_0 = {"max_attempts", "timeout", "start_timeout", "backoff"}
    assert set(json.loads(JobPolicy().model_dump_json())) == of_1_0 | {"max_lost_attempts"}
    chosen = PolicyOverrides(max_attempts=3).model_dump(mode="json")
    assert set(chosen) == of_1_0, "the fingerprint of a request"
    assert PolicyOverrides(retry_on=(), max_lost_attempts=0).model_dump_json(exclude_none=True) == (
        '{"max_lost_attempts":0,"retry_on":[]}'
    ), "an empty list and a zero are choices"


def test_the_age_of_a_job_that_waits_begins_when_it_is_due() -> None:
    policy = JobPolicy(max_age=timedelta(hours=1))
    assert policy.with_initial_wait(timedelta(days=7)).max_age == timedelta(days=7, hours=1)
    assert policy.with_initial_wait(timedelta(0)) is policy
    assert JobPolicy().with_initial_wait(timedelta(days=7)) == JobPolicy()
    far = JobPolicy(max_age=MAX_DURATION).with_initial_wait(MAX_DURATION)
    assert JobPolicy.model_validate_json(far.model_dump_json()) == far


def test_the_policy_reads_what_it_writes() -> None:
    policy = JobPolicy(timeout=timedelta(minutes=2, milliseconds=5))
    assert JobPolicy.model_validate_json(policy.model_dump_json()) == policy
    assert '"timeout":"PT2M0.005S"' in policy.model_dump_json()


FEW = st.timedeltas(timedelta(0), timedelta(days=2))


@st.composite
def backoffs(draw: st.DrawFn) -> Backoff:
    jitter = draw(st.floats(0, 1))
    match draw(st.sampled_from(["fixed", "linear", "exponential", "listed"])):
        case "fixed":
            return Backoff.fixed(draw(SPANS), jitter=jitter)
        case "linear":
            return Backoff.linear(draw(SPANS), step=draw(SPANS), limit=draw(SPANS), jitter=jitter)
        case "exponential":
            factor = draw(st.floats(1, 100))
            return Backoff.exponential(draw(SPANS), factor=factor, limit=draw(SPANS), jitter=jitter)
        case _:
            return Backoff.listed(*draw(st.lists(FEW, min_size=1, max_size=100)), jitter=jitter)


def seconds(backoff: Backoff, failures: int) -> list[float]:
    """The delays after the first so many failures, before they are spread."""
    return [backoff.base_delay(n).total_seconds() for n in range(1, failures + 1)]


@pytest.mark.parametrize(
    ("backoff", "expected"),
    [
        (Backoff(), [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]),
        (Backoff.fixed("30s"), [30, 30, 30]),
        (Backoff.linear("10s", limit="45s"), [10, 20, 30, 40, 45, 45]),
        (Backoff.linear("10s", step="1m"), [10, 70, 130, 190, 250, 300, 300]),
        (Backoff.exponential("2s", factor=3, limit="1m"), [2, 6, 18, 54, 60]),
        (Backoff.listed("1s", "1m", "1h", "6h"), [1, 60, 3600, 21600, 21600]),
        (Backoff.listed(5, 1), [5, 1, 1]),
    ],
    ids=["default", "fixed", "linear", "linear by a step", "exponential", "listed", "listed downwards"],
)
def test_each_curve_waits_by_its_name(backoff: Backoff, expected: list[float]) -> None:
    assert seconds(backoff, len(expected)) == expected
    assert backoff.delay(1, 0.5) == backoff.base_delay(1), "in the middle of the jitter nothing is added"


@given(backoffs(), st.integers(-1, 10**9), CHANCE)
@example(Backoff.fixed(MAX_DURATION, jitter=1), 1, 0.99)
def test_no_delay_is_negative_or_overflows_and_jitter_keeps_its_share(
    backoff: Backoff, failures: int, chance: float
) -> None:
    base_delay, delay = backoff.base_delay(failures), backoff.delay(failures, chance)
    assert timedelta(0) <= base_delay <= MAX_DURATION
    assert timedelta(0) <= delay <= MAX_DURATION
    room = timedelta(seconds=base_delay.total_seconds() * backoff.jitter) + timedelta(milliseconds=1)
    assert base_delay - room <= delay <= base_delay + room


@given(backoffs().filter(lambda backoff: backoff.delays is None), CHANCE)
def test_no_curve_but_a_list_gets_shorter_from_one_failure_to_the_next(
    backoff: Backoff, chance: float
) -> None:
    delays = [backoff.delay(failures, chance) for failures in range(1, 80)]
    assert all(earlier <= later for earlier, later in pairwise(delays))


@given(backoffs())
def test_what_is_written_is_read(backoff: Backoff) -> None:
    assert Backoff.model_validate_json(backoff.model_dump_json(), strict=True) == backoff


def test_the_fields_of_version_1_0_are_written_as_before() -> None:
    written = {"first": "PT1S", "factor": 2.0, "limit": "PT5M", "jitter": 0.1}
    assert json.loads(Backoff().model_dump_json()) == written


class OldBackoff(BaseModel, frozen=True):
    """As version 1.0 read it."""

    first: Duration
    factor: float
    limit: Duration
    jitter: float


@pytest.mark.parametrize(
    ("backoff", "understood"),
    [
        (Backoff.fixed("30s"), [30, 30, 30]),
        (Backoff.linear("10s", step="10s"), [10, 10, 10]),
        (Backoff.listed("1s", "1m", "1h"), [1, 2, 4]),
    ],
    ids=["fixed: the same", "linear: fixed", "listed: doubling from the first to the longest"],
)
def test_a_reader_of_version_1_0_takes_what_comes_nearest(backoff: Backoff, understood: list[float]) -> None:
    old = OldBackoff.model_validate_json(backoff.model_dump_json())
    assert seconds(Backoff(**dict(old)), 3) == understood
    assert old.limit >= max(backoff.base_delay(n) for n in range(1, 4))


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"step": "1s", "delays": ["1s"]}, "expected step .linear. or delays .a list., got both"),
        ({"delays": []}, "at least 1 item"),
        ({"delays": ["1s"] * 101}, "at most 100 items"),
        ({"delays": ["soon"]}, "expected a duration"),
        ({"step": "-1s"}, "expected a duration"),
        ({"factor": 0.5}, "greater than or equal to 1"),
        ({"jitter": 2}, "less than or equal to 1"),
    ],
)
def test_a_curve_that_cannot_be_is_refused_with_the_reason(wrong: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        Backoff.model_validate(wrong)


def error(
    name: str = "requests.exceptions.ConnectTimeout", *bases: str, kind: ErrorKind = ErrorKind.ERROR
) -> ErrorInfo:
    return ErrorInfo(kind=kind, type=name, message="", base_classes=bases)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("requests.exceptions.ConnectTimeout", True),
        ("requests.*", True),
        ("*Timeout", True),
        ("*", True),
        ("requests.*.Connect*", True),
        ("OSError", True),
        ("requests.exceptions.ConnectTimeoutX", False),
        ("requests", False),
        ("*.exceptions.*.Connect*", False),
        ("requests.exceptions.ConnectTimeout*ConnectTimeout", False),
        ("ConnectTimeout", False),
        ("requests?exceptions*", False),
        ("oserror", False),
    ],
)
def test_a_name_means_the_class_and_what_derives_from_it(name: str, *, found: bool) -> None:
    assert matches_any([name], error("requests.exceptions.ConnectTimeout", "OSError", "Exception")) is found


POLICY = JobPolicy(retry_on=("requests.*",), no_retry_on=("*Timeout",))
FINAL = ErrorInfo(kind=ErrorKind.ERROR, type="app.Closed", message="", retryable=False)
BY_AGENT = FINAL.model_copy(update={"no_retry_by_policy": True})
OF_THE_TYPE = JobPolicy(no_retry_on=("app.Closed",))


@pytest.mark.parametrize(
    ("found", "policy", "reason"),
    [
        pytest.param(error(), JobPolicy(), None, id="without names every error"),
        pytest.param(
            error(), POLICY, "ConnectTimeout is never retried (no_retry_on)", id="no_retry_on first"
        ),
        pytest.param(error("requests.HTTPError"), POLICY, None, id="retry_on"),
        pytest.param(error("KeyError"), POLICY, "KeyError is not retried (retry_on)", id="not in retry_on"),
        pytest.param(
            error("timeout", kind=ErrorKind.TIMEOUT), POLICY, None, id="a timeout, raised by nobody"
        ),
        pytest.param(error("crash", kind=ErrorKind.CRASH), POLICY, None, id="a crash, raised by nobody"),
        pytest.param(error("lost", kind=ErrorKind.LOST), POLICY, None, id="a loss, raised by nobody"),
        pytest.param(error(UNKNOWN_JOB_TYPE), POLICY, None, id="another agent may know the type"),
        pytest.param(error(CODE_CHANGED), POLICY, None, id="another agent may have the right code"),
        pytest.param(
            error("timeout", kind=ErrorKind.TIMEOUT),
            JobPolicy(no_retry_on=("timeout",)),
            "timeout is never retried (no_retry_on)",
            id="a timeout that is named",
        ),
        pytest.param(
            error("SIGKILL", kind=ErrorKind.CRASH),
            JobPolicy(no_retry_on=("crash",)),
            "SIGKILL is never retried (no_retry_on)",
            id="a crash that is named by its cause",
        ),
        pytest.param(
            error("MemoryError"),
            JobPolicy(no_retry_on=("memory",)),
            "MemoryError is never retried (no_retry_on)",
            id="a want of memory that is named by its cause",
        ),
        pytest.param(
            error("app.Wrong"), JobPolicy(no_retry_on=("error",)), None, id="an error has its class alone"
        ),
        pytest.param(FINAL, JobPolicy(), "no retry can mend it", id="final by its handler"),
        pytest.param(BY_AGENT, OF_THE_TYPE, "Closed is never retried (no_retry_on)", id="final by its type"),
        pytest.param(
            BY_AGENT,
            PolicyOverrides(no_retry_on=()).apply_to(OF_THE_TYPE),
            None,
            id="final by its type, and the request may try again",
        ),
    ],
)
def test_an_error_is_tried_again_unless_there_is_a_reason(
    found: ErrorInfo, policy: JobPolicy, reason: str | None
) -> None:
    assert non_retryable_reason(found, policy) == reason


GUIDE = Path(__file__).resolve().parents[3] / "docs" / "howto" / "choose-a-retry-policy.md"
LINES = GUIDE.read_text("utf-8").splitlines()
CURVES = [line for line in LINES if line.startswith("| `Backoff")]
WIRE = {name: line for line in LINES if (name := line.split(" | ")[0]).startswith("| ") and ' | `{"' in line}


def cells(line: str) -> list[str]:
    return [cell.strip().strip("`") for cell in line.strip("|").split(" | ")]


@pytest.mark.parametrize("line", CURVES, ids=lambda line: cells(line)[0])
def test_the_table_of_delays_is_what_the_code_waits(line: str) -> None:
    written, *delays = cells(line)
    backoff = eval(written, {"Backoff": Backoff})
    assert isinstance(backoff, Backoff)
    expected = [backoff.base_delay(failures) for failures in range(1, len(delays) + 1)]
    assert [parse_duration(delay.replace(" min", "m").replace(" ", "")) for delay in delays] == expected


def test_the_table_has_every_curve() -> None:
    names = {cells(line)[0].partition("(")[0] for line in CURVES}
    assert names == {"Backoff", "Backoff.fixed", "Backoff.linear", "Backoff.exponential", "Backoff.listed"}


def test_the_json_of_the_guide_is_read_as_the_guide_claims() -> None:
    read = {cells(line)[0]: Backoff.model_validate_json(cells(line)[1]) for line in WIRE.values()}
    assert read == {
        "exponential": Backoff.exponential("2s", factor=3, limit="10m"),
        "fixed": Backoff.fixed("30s"),
        "linear": Backoff.linear("10s", step="1m", limit="3m"),
        "a list": Backoff.listed("1s", "1m", "1h").model_copy(update={"factor": 2.0}),
    }


def test_the_defaults_that_the_guide_names_are_those_of_the_code() -> None:
    policy = JobPolicy()
    text = GUIDE.read_text("utf-8")
    assert f"| `max_attempts` | {policy.max_attempts} |" in text
    assert f"| `max_lost_attempts` | {policy.max_lost_attempts} |" in text
    assert f"| `max_snoozes` | {policy.max_snoozes} |" in text
    assert policy.backoff == Backoff.exponential("1s", factor=2, limit="5m", jitter=0.1)
    assert policy.backoff.base_delay(1) == timedelta(seconds=1)
