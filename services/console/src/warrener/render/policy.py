"""A policy as people read it. Pure."""

from collections.abc import Iterable
from datetime import timedelta

from warrener.render.times import clock, span
from warrener_contracts.backoff import Backoff
from warrener_contracts.policy import JobPolicy
from warrener_store.jobs.rows import JobRow


def retries_text(policy: JobPolicy) -> str:
    """`1 s x2 to 5 min, only requests.*, not ValueError, at most 2 h old`."""
    return ", ".join((curve_text(policy.backoff), *_names(policy), *_age(policy)))


def job_retries_text(row: JobRow) -> str:
    """As `retries_text`, with the spread, and with the moment after which no attempt begins."""
    parts = [curve_text(row.policy.backoff), f"± {row.policy.backoff.jitter:.0%}", *_names(row.policy)]
    if row.policy.max_age is not None:
        parts.append(f"none after {clock(row.accepted_at + row.policy.max_age)}")
    return ", ".join(parts)


def curve_text(backoff: Backoff) -> str:
    """`30 s` always, `10 s +10 s to 5 min`, `1 s x2 to 5 min`, or the list: `1 s, 1 min, 1 h`."""
    first = _span(backoff.base_delay(1))
    if backoff.delays is not None:
        return ", ".join(map(_span, backoff.delays[:6])) + (" …" if len(backoff.delays) > 6 else "")
    if backoff.base_delay(2) == backoff.base_delay(1):
        return first
    step = f"x{backoff.factor:g}" if backoff.step is None else f"+{_span(backoff.step)}"
    return f"{first} {step} to {_span(backoff.limit)}"


def _names(policy: JobPolicy) -> Iterable[str]:
    if policy.retry_on:
        yield f"only {' '.join(policy.retry_on)}"
    if policy.no_retry:
        yield f"not {' '.join(policy.no_retry)}"


def _age(policy: JobPolicy) -> Iterable[str]:
    if policy.max_age is not None:
        yield f"at most {_span(policy.max_age)} old"


def _span(length: timedelta) -> str:
    seconds = length.total_seconds()
    return f"{seconds:g} s" if seconds < 60 else span(length)
