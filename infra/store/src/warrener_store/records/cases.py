"""Cases and their entries, as the databases keep them."""

from collections.abc import Sequence
from typing import Any

from warrener_store.encoding import decode, encode, escape, unescape
from warrener_store.escalations import CaseEntry, CaseRow, RaisedIncident
from warrener_store.records.codec import ColumnCodec, decode_text, decode_texts, encode_text, encode_texts

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


def case_from_row(values: Sequence[Any], codec: ColumnCodec) -> CaseRow:
    """The row whose CASE_COLUMNS have these values."""
    named = dict(zip(CASE_COLUMNS, values, strict=False))  # a claim tells more behind them
    moments = {
        name: codec.decode_moment(value) for name, value in named.items() if name.endswith(("_at", "_until"))
    }
    texts = {name: decode_text(named[name]) for name in _OPTIONAL_TEXTS}
    fields: dict[str, Any] = {
        **named,
        **moments,
        **texts,
        "fingerprint": unescape(named["fingerprint"]),
        "kind": unescape(named["kind"]),
        "subject": unescape(named["subject"]),
        "sample": decode(named["sample"]),
        "delivered": decode_texts(named["delivered"]),
    }
    return CaseRow(**fields)


_OPTIONAL_TEXTS = ("job_type", "trouble", "claimed_by", "acknowledged_by", "closed_why")


def raised_to_row(raised: RaisedIncident, codec: ColumnCodec) -> tuple[Any, ...]:
    """The values of RAISED_COLUMNS."""
    return (
        escape(raised.fingerprint),
        escape(raised.occurrence),
        escape(raised.kind),
        escape(raised.subject),
        encode_text(raised.job_type),
        encode(raised.sample),
        codec.encode_moment(raised.raised_at),
    )


def progress_to_row(row: CaseRow, codec: ColumnCodec) -> tuple[Any, ...]:
    """What `save_case` writes, behind whose case it is and how often that had been raised when claimed."""
    return (
        escape(row.fingerprint),
        encode_text(row.claimed_by),
        row.times,
        row.step,
        codec.encode_moment(row.due_at),
        row.tries,
        encode_texts(row.delivered),
        encode_text(row.trouble),
        codec.encode_moment(row.wake_at),
        codec.encode_moment(row.closed_at),
        encode_text(row.closed_why),
    )


def entry_from_row(values: Sequence[Any], codec: ColumnCodec) -> CaseEntry:
    """The entry of (occurrence, subject, raised_at, done)."""
    return CaseEntry(
        occurrence=unescape(values[0]),
        subject=unescape(values[1]),
        raised_at=codec.decode_moment(values[2]),
        done=values[3],
    )
