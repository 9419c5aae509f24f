"""Decide by name if an error may be retried: the same rule for agents in every language. Pure."""

from collections.abc import Iterable

from warrener_contracts.events import ErrorInfo, ErrorKind
from warrener_contracts.policy import JobPolicy, is_named

UNKNOWN_JOB_TYPE = "UnknownJobType"
"""The error type of an agent that cannot run an attempt of its queue. The attempt is not charged, because
another agent may know the job type."""
CODE_CHANGED = "CodeChanged"
"""The error type of a turn of a workflow whose code is not that of its journal. The attempt is not charged,
because an agent with the right code may go on."""
REQUEST_REJECTED = "Rejected"
"""The error type of a child job whose request was rejected: it has ended without an attempt."""


def non_retryable_reason(error: ErrorInfo, policy: JobPolicy) -> str | None:
    """The reason why `error` must not be retried; None if it may be.

    An error that the handler itself calls final stays final. An error that the agent judged by class is
    judged again, because the policy of this job may differ from that of its type.
    """
    if not error.retryable and not error.no_retry_by_policy:
        return "no retry can mend it"
    if matches_any(policy.no_retry_on, error):
        return f"{_class_name(error)} is never retried (no_retry_on)"
    is_of_handler = error.kind is ErrorKind.ERROR and not is_unrunnable_here(error)
    if policy.retry_on and is_of_handler and not matches_any(policy.retry_on, error):
        return f"{_class_name(error)} is not retried (retry_on)"
    return None


def is_unknown_job_type(error: ErrorInfo) -> bool:
    """True if the agent could not run the attempt because it does not know the job type."""
    return error.kind is ErrorKind.ERROR and error.type == UNKNOWN_JOB_TYPE


def is_unrunnable_here(error: ErrorInfo) -> bool:
    """True if other code than the agent's has to run the attempt, which is not charged."""
    return error.kind is ErrorKind.ERROR and error.type in {UNKNOWN_JOB_TYPE, CODE_CHANGED}


def _class_name(error: ErrorInfo) -> str:
    return error.type.rpartition(".")[2]


def matches_any(names: Iterable[str], error: ErrorInfo) -> bool:
    """True if one of `names` matches the error's class, one of its bases, or its cause."""
    return is_named(names, error.kind.value, error.type, error.base_classes)
