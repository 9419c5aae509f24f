"""Whether an error may be tried again, by its name: the same answer for agents in every language. Pure."""

import re
from collections.abc import Iterable
from functools import lru_cache

from warrener_contracts.events.status import ErrorInfo, ErrorKind
from warrener_contracts.policy import JobPolicy

UNKNOWN_JOB_TYPE = "UnknownJobType"
"""The type of the error by which an agent says that it cannot run what stands in its queue: not the job's
fault, so the attempt is not charged; another agent may know it."""


def non_retryable_reason(error: ErrorInfo, policy: JobPolicy) -> str | None:
    """Why no further attempt is to be made after `error`; None where one may.

    What the handler itself calls final stays so. What the agent has judged by class is judged again here, for
    the policy of this job may differ from that of its type.
    """
    if not error.retryable and not error.by_class:
        return "no retry can mend it"
    if matches_any(policy.no_retry, error):
        return f"no_retry names {error.type}"
    if policy.retry_on and _is_handler_error(error) and not matches_any(policy.retry_on, error):
        return f"retry_on does not name {error.type}"
    return None


def is_unknown_job_type(error: ErrorInfo) -> bool:
    """True if the agent could not run the attempt because it does not know the job type."""
    return error.kind is ErrorKind.ERROR and error.type == UNKNOWN_JOB_TYPE


def matches_any(names: Iterable[str], error: ErrorInfo) -> bool:
    """Whether one of `names` is that of the error's class, or of a class that it derives from."""
    return any(_pattern(name).fullmatch(each) for name in names for each in (error.type, *error.bases))


def _is_handler_error(error: ErrorInfo) -> bool:
    return error.kind is ErrorKind.ERROR and not is_unknown_job_type(error)


@lru_cache(maxsize=1024)
def _pattern(name: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in name.split("*")), re.DOTALL)
