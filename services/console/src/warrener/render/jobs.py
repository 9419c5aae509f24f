"""Jobs, ends of attempts and policies in words and tones. Pure."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from rich.text import Text

from warrener.render.times import clock, span
from warrener.render.tones import STATE_SIGNS, Tone
from warrener_contracts.journals import next_timer, open_calls
from warrener_contracts.state_machine import JobState
from warrener_store.gates.rows import decode_gates
from warrener_store.jobs.rows import AttemptOutcome
from warrener_store.jobs.timeline import waits_for_slot

if TYPE_CHECKING:  # a list of one kind of row needs no other kind
    from collections.abc import Sequence

    from warrener_contracts.events import Call
    from warrener_contracts.policy import Backoff, JobPolicy, Limit, RetryRule
    from warrener_contracts.unique import Unique
    from warrener_store.jobs.rows import JobRow
    from warrener_store.workflows.rows import TurnRow

OUTCOME_TONES: dict[AttemptOutcome, Tone] = {
    AttemptOutcome.SUCCEEDED: Tone.GOOD,
    AttemptOutcome.FAILED: Tone.ERROR,
    AttemptOutcome.TIMED_OUT: Tone.ERROR,
    AttemptOutcome.LOST: Tone.WARNING,
    AttemptOutcome.NOT_STARTED: Tone.WARNING,
    AttemptOutcome.RELEASED: Tone.SOFT,
    AttemptOutcome.SNOOZED: Tone.SOFT,
    AttemptOutcome.CANCELLED: Tone.SOFT,
}
_MAX_DELAYS_SHOWN = 6


def state_text(state: JobState) -> Text:
    """`● succeeded` in green."""
    sign, style = STATE_SIGNS[state]
    return Text(f"{sign} {state.value}", style=style)


def id_text(job_id: object, *, wide: bool = True) -> Text:
    """An id, of which the last eight characters are enough for a command; on a narrow screen these alone."""
    whole = str(job_id)
    return Text.assemble((whole[:-8] if wide else "", "soft"), (whole[-8:], "key"))


def counts_line(counts: Mapping[JobState, int]) -> Text:
    """`● 812 succeeded  ✗ 3 dead`, of all jobs."""
    line = Text()
    for state, jobs in counts.items():
        if jobs:
            sign, style = STATE_SIGNS[state]
            line.append(f"{sign} {jobs:,} {state.value}   ", style=style)
    return line


def outcome_text(end: AttemptOutcome) -> Text:
    return Text(end.value.replace("_", " "), style=OUTCOME_TONES[end])


# -- workflows ---------------------------------------------------------------------------------------------


def call_text(call: "Call") -> str:
    """`cards.charge, orders.py:41`; a signal and a step are named as such."""
    kind = "" if call.kind.value == "job" else f"{call.kind} "
    return f"{kind}{call.name}, {call.line}" if call.line else f"{kind}{call.name}"


def awaited_text(row: "JobRow", turns: "Sequence[TurnRow]") -> tuple[str, datetime | None]:
    """`waits for cards.charge, orders.py:41, and 2 more`, and the time of its timer; or the limit that a job
    waits for. Nothing for one that is neither suspended nor limited, or whose next turn is due."""
    if waits_for_slot(row):
        return f"waits for a slot of {limits_text(row)}", None
    if row.state is not JobState.SUSPENDED:
        return "", None
    if row.ending is not None:
        return f"undoes its calls, then is {row.ending.value}", None
    if row.is_held:
        return f"held: {row.ending_reason}", None
    calls, timer = open_calls(turns), next_timer(turns)
    at, line = timer or (None, "")
    if not calls:
        return f"sleeps{f', {line}' if line else ''}" if timer else "", at
    more = f", and {len(calls) - 1} more" if len(calls) > 1 else ""
    return f"waits for {call_text(calls[0])}{more}", at


def limit_text(limit: "Limit") -> str:
    """`5 at once of each {{ arguments.tenant }}`, or `5 at once in pool crm`."""
    shared = f" in pool {limit.pool}" if limit.pool else f" in its {limit.per}" if limit.per else ""
    return f"{limit.slots} at once{f' of each {limit.key}' if limit.key else ''}{shared}"


def unique_text(unique: "Unique") -> str:
    """`one of each {{ arguments.index }} until dispatched, for at least 1 h; a further one: replace`."""
    each = f" of each {unique.key}" if unique.key else " of equal arguments"
    window = "" if unique.window is None else f", for at least {_span(unique.window)}"
    return f"one{each} until {unique.until}{window}; a further one: {unique.repeat}"


def limits_text(row: "JobRow") -> str:
    """`limit job/crm.push/acme or of its map`: the limits of which the job needs a slot."""
    names = [name for name, _ in decode_gates(row.gates or "[]")]
    return " or of ".join("its map" if name.startswith("map/") else f"limit {name}" for name in names)


# -- policies ----------------------------------------------------------------------------------------------


def retries_text(policy: "JobPolicy") -> str:
    """`1 s x2 to 5 min, only requests.*, not ValueError, at most 2 h old`."""
    age = () if policy.max_age is None else (f"at most {_span(policy.max_age)} old",)
    return ", ".join((_curve(policy.backoff), *_errors(policy), *map(rule_text, policy.retry_rules), *age))


def job_retries_text(policy: "JobPolicy", accepted_at: datetime) -> str:
    """As `retries_text`, with the jitter, and the time after which no attempt begins."""
    parts = [_curve(policy.backoff), f"± {policy.backoff.jitter:.0%}", *_errors(policy)]
    parts += map(rule_text, policy.retry_rules)
    if policy.max_age is not None:
        parts.append(f"none after {clock(accepted_at + policy.max_age)}")
    return ", ".join(parts)


def _curve(backoff: "Backoff") -> str:
    """`30 s` always, `10 s +10 s to 5 min`, `1 s x2 to 5 min`, or the list: `1 s, 1 min, 1 h`."""
    first = _span(backoff.base_delay(1))
    if backoff.delays is not None:
        more = " …" if len(backoff.delays) > _MAX_DELAYS_SHOWN else ""
        return ", ".join(map(_span, backoff.delays[:_MAX_DELAYS_SHOWN])) + more
    if backoff.base_delay(2) == backoff.base_delay(1):
        return first
    step = f"x{backoff.factor:g}" if backoff.step is None else f"+{_span(backoff.step)}"
    return f"{first} {step} to {_span(backoff.limit)}"


def _errors(policy: "JobPolicy") -> Iterator[str]:
    if policy.retry_on:
        yield f"only {' '.join(policy.retry_on)}"
    if policy.no_retry_on:
        yield f"not {' '.join(policy.no_retry_on)}"


def rule_text(rule: "RetryRule") -> str:
    """`after 2 memory: queue high-memory`."""
    changes = [] if rule.queue is None else [f"queue {rule.queue}"]
    changes += [] if rule.timeout_factor is None else [f"timeout x{rule.timeout_factor:g}"]
    changes += ["another agent"] if rule.another_agent else []
    return f"after {rule.after} {' '.join(rule.errors)}: {' and '.join(changes)}"


def _span(length: timedelta) -> str:
    seconds = length.total_seconds()
    return f"{seconds:g} s" if seconds < 60 else span(length)
