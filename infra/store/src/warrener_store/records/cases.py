"""Cases and their entries, as the databases keep them."""

from collections.abc import Sequence
from typing import Any

from warrener_store.encoding import decode, encode, escape, unescape
from warrener_store.escalations import CaseEntry, CaseRow, Raised
from warrener_store.records.form import Form, text_in, text_out, texts_in, texts_out

CASE_COLUMNS = (
    "fingerprint",
    "kind",
    "subject",
    "job_type",
    "sample",
    "times",
    "first_seen_at",
    "last_seen_at",
    "round",
    "step",
    "due_at",
    "tries",
    "delivered",
    "trouble",
    "wake_at",
    "claimed_by",
    "claimed_until",
    "acknowledged_by",
    "acknowledged_at",
    "snoozed_until",
    "closed_at",
    "closed_why",
)
RAISED_COLUMNS = ("fingerprint", "occurrence", "kind", "subject", "job_type", "sample", "raised_at")


def case_in(values: Sequence[Any], form: Form) -> CaseRow:
    """The row whose CASE_COLUMNS have these values."""
    named = dict(zip(CASE_COLUMNS, values, strict=False))  # a claim tells more behind them
    moments = {
        name: form.moment_in(value) for name, value in named.items() if name.endswith(("_at", "_until"))
    }
    texts = {name: text_in(named[name]) for name in _OPTIONAL_TEXTS}
    fields: dict[str, Any] = {
        **named,
        **moments,
        **texts,
        "fingerprint": unescape(named["fingerprint"]),
        "kind": unescape(named["kind"]),
        "subject": unescape(named["subject"]),
        "sample": decode(named["sample"]),
        "delivered": texts_in(named["delivered"]),
    }
    return CaseRow(**fields)


_OPTIONAL_TEXTS = ("job_type", "trouble", "claimed_by", "acknowledged_by", "closed_why")


def raised_out(raised: Raised, form: Form) -> tuple[Any, ...]:
    """The values of RAISED_COLUMNS."""
    return (
        escape(raised.fingerprint),
        escape(raised.occurrence),
        escape(raised.kind),
        escape(raised.subject),
        text_out(raised.job_type),
        encode(raised.sample),
        form.moment_out(raised.raised_at),
    )


def progress_out(row: CaseRow, form: Form) -> tuple[Any, ...]:
    """What `save_case` writes, behind whose case it is and how often that had been raised when claimed."""
    return (
        escape(row.fingerprint),
        text_out(row.claimed_by),
        row.times,
        row.step,
        form.moment_out(row.due_at),
        row.tries,
        texts_out(row.delivered),
        text_out(row.trouble),
        form.moment_out(row.wake_at),
        form.moment_out(row.closed_at),
        text_out(row.closed_why),
    )


def entry_in(values: Sequence[Any], form: Form) -> CaseEntry:
    """The entry of (occurrence, subject, raised_at, done)."""
    return CaseEntry(
        occurrence=unescape(values[0]),
        subject=unescape(values[1]),
        raised_at=form.moment_in(values[2]),
        done=values[3],
    )
