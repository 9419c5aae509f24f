"""Which errors are tried again: judged by name, the same for agents in every language."""

import pytest

from warrener_contracts.events import ErrorInfo, ErrorKind
from warrener_contracts.policy import JobPolicy, PolicyOverrides
from warrener_contracts.retryability import UNKNOWN_JOB_TYPE, matches_any, non_retryable_reason


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


def test_without_names_every_error_is_tried_again() -> None:
    assert non_retryable_reason(error(), JobPolicy()) is None


def test_no_retry_on_counts_before_retry_on() -> None:
    policy = JobPolicy(retry_on=("requests.*",), no_retry_on=("*Timeout",))
    assert non_retryable_reason(error(), policy) == "ConnectTimeout is never retried (no_retry_on)"
    assert non_retryable_reason(error("requests.HTTPError"), policy) is None
    assert non_retryable_reason(error("KeyError"), policy) == "KeyError is not retried (retry_on)"


def test_only_what_a_handler_raises_must_be_named_by_retry_on() -> None:
    policy = JobPolicy(retry_on=("requests.*",))
    for kind in (ErrorKind.TIMEOUT, ErrorKind.CRASH, ErrorKind.LOST):
        assert non_retryable_reason(error(kind.value, kind=kind), policy) is None
    assert non_retryable_reason(error(UNKNOWN_JOB_TYPE), policy) is None, "another agent may know it"


def test_a_timeout_may_be_named_in_no_retry_on() -> None:
    policy = JobPolicy(no_retry_on=("timeout",))
    too_long = error("timeout", kind=ErrorKind.TIMEOUT)
    assert non_retryable_reason(too_long, policy) == "timeout is never retried (no_retry_on)"


def test_what_the_handler_calls_final_is_final() -> None:
    final = ErrorInfo(kind=ErrorKind.ERROR, type="app.Closed", message="", retryable=False)
    assert non_retryable_reason(final, JobPolicy()) == "no retry can mend it"


def test_what_its_job_type_calls_final_a_request_may_try_again() -> None:
    of_the_type = JobPolicy(no_retry_on=("app.Closed",))
    by_agent = ErrorInfo(
        kind=ErrorKind.ERROR, type="app.Closed", message="", retryable=False, no_retry_by_policy=True
    )
    assert non_retryable_reason(by_agent, of_the_type) == "Closed is never retried (no_retry_on)"
    assert non_retryable_reason(by_agent, PolicyOverrides(no_retry_on=()).apply_to(of_the_type)) is None
