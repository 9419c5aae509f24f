"""Policies and errors as columns keep them."""

from functools import lru_cache

from warrener_contracts.events import ErrorInfo
from warrener_contracts.policy import JobPolicy


def encode_policy(policy: JobPolicy) -> str:
    """A policy as JSON."""
    return policy.model_dump_json()


@lru_cache(maxsize=1024)
def decode_policy(text: str) -> JobPolicy:
    """What `encode_policy` was given. Policies are frozen and few: thousands of jobs share one."""
    return JobPolicy.model_validate_json(text)


def encode_error(error: ErrorInfo | None) -> str | None:
    """An error as JSON."""
    return None if error is None else error.model_dump_json()


def decode_error(text: str | None) -> ErrorInfo | None:
    """What `encode_error` was given."""
    return None if text is None else ErrorInfo.model_validate_json(text)
