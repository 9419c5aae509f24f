"""Choose the next attempt by the earlier ones, as the rules of a retry policy say. Pure.

The row stores the chosen queue and timeout; the verdict about the failed attempt says why. The agents to
avoid follow from the failed attempts, so that each dispatch of an attempt names the same ones.
"""

import re
from collections.abc import Sequence
from datetime import timedelta

from warrener_contracts.events import EarlierAttempt, History
from warrener_contracts.policy import MAX_HISTORY, RetryRule, is_named
from warrener_store.jobs.rows import AttemptOutcome, AttemptRow, JobRow, evolve
from warrener_store.jobs.views import FailedAttempt

_NO_FAILURES = (AttemptOutcome.RELEASED, AttemptOutcome.SNOOZED)
_MAX_TIMEOUT = timedelta(days=1)  # unless the rule names a limit
_MOVE = "goes from queue {} to "
_MOVED = re.compile(_MOVE.format("([A-Za-z0-9_-]+)"))
_MAX_NAME = 200  # characters of an error's class


def choose_next(row: JobRow, record: AttemptRow, earlier: Sequence[FailedAttempt]) -> tuple[JobRow, str]:
    """Return `row` with the queue and the timeout of the attempt after `record`, and what was chosen and why.

    `earlier`: the failed attempts before it.
    """
    rules, error = row.policy.retry_rules, record.error
    if not rules or error is None or record.outcome in _NO_FAILURES:
        return row, ""
    last = FailedAttempt(
        job_id=row.job_id,
        attempt=record.attempt,
        agent_id=record.agent_id,
        started_at=record.started_at,
        finished_at=record.finished_at,
        cause=error.kind.value,
        error_type=error.type,
        base_classes=error.base_classes,
        verdict="",
    )
    failed = [*(one for one in earlier if one.attempt < record.attempt), last]
    chosen: list[str] = []
    number, queue, timeout = record.attempt + 1, row.queue, row.timeout
    for rule in rules:
        found = _matching(rule, failed)
        if len(found) < rule.after:
            continue
        why = _reason(rule, len(found))
        if rule.queue not in (None, queue):
            queue = rule.queue or queue
            chosen.append(f"attempt {number} {_MOVE.format(row.queue)}{queue}: {why}")
        if rule.timeout_factor is not None:
            longest = rule.max_timeout or _MAX_TIMEOUT
            longer = timedelta(
                seconds=min(timeout.total_seconds() * rule.timeout_factor, longest.total_seconds())
            )
            if longer > timeout:
                timeout = longer
                chosen.append(f"attempt {number} may run for {timeout.total_seconds():g} s: {why}")
        if rule.another_agent and (agents := _agents_of(found)):
            chosen.append(f"attempt {number} avoids {', '.join(agents)}: {why}")
    if timeout != row.timeout:
        row = evolve(row, timeout_seconds=timeout.total_seconds())
    return (row if queue == row.queue else evolve(row, queue=queue)), "; ".join(chosen)


def agents_to_avoid(row: JobRow, failed: Sequence[FailedAttempt]) -> tuple[str, ...]:
    """Return the agents that are to give the current attempt back, by the failed attempts before it."""
    matching = [
        found
        for rule in row.policy.retry_rules
        if rule.another_agent and len(found := _matching(rule, failed)) >= rule.after
    ]
    return _agents_of([one for found in matching for one in found])[:MAX_HISTORY]


def history_of(row: JobRow, failed: Sequence[FailedAttempt]) -> History:
    """Return the history that the current attempt of `row` is dispatched with.

    Where an attempt ran is known backwards: from the queue of the row, by the verdicts that have changed it.
    """
    listed: list[EarlierAttempt] = []
    queue = row.queue
    for one in reversed(failed[-MAX_HISTORY:]):
        if moved := _MOVED.search(one.verdict):
            queue = moved[1]
        began = one.started_at
        listed.append(
            EarlierAttempt(
                attempt=one.attempt,
                cause=one.cause,
                error=one.error_type[:_MAX_NAME],
                queue=queue,
                agent_id=one.agent_id,
                started_at=began,
                seconds=None if began is None else max((one.finished_at - began).total_seconds(), 0.0),
            )
        )
    return History(attempts=tuple(reversed(listed)), failures=row.failures, losses=row.losses)


def _matching(rule: RetryRule, failed: Sequence[FailedAttempt]) -> list[FailedAttempt]:
    """Return the attempts that count for a rule; none if the last one does not."""
    found: list[FailedAttempt] = []
    for one in reversed(failed):
        if is_named(rule.errors, one.cause, one.error_type, one.base_classes):
            found.append(one)
        elif rule.in_a_row or not found:
            break
    return found


def _agents_of(failed: Sequence[FailedAttempt]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.agent_id for one in failed if one.agent_id is not None))


def _reason(rule: RetryRule, number: int) -> str:
    failures = "1 failure" if number == 1 else f"{number} failures{' in a row' if rule.in_a_row else ''}"
    return f"{failures} ({', '.join(rule.errors)})"
