"""Escalated cases as a table."""

from collections.abc import Iterable
from datetime import datetime

from rich.table import Table
from rich.text import Text

from warrener.render.tables import one_line, table
from warrener.render.times import ago, clock
from warrener_contracts.json_safety import is_object
from warrener_store.incidents.rows import CaseRow


def incidents_table(rows: Iterable[CaseRow], now: datetime) -> Table:
    """Cases, one a line, the last raised first."""
    made = table("case", "what", "about", "times", "first", "last", "state", "said", right=("times",))
    for row in rows:
        made.add_row(
            row.fingerprint,
            row.kind,
            row.job_type or row.subject,
            str(row.times),
            Text(ago(row.first_seen_at, now), style="soft"),
            Text(ago(row.last_seen_at, now), style="soft"),
            incident_state(row, now),
            Text(one_line(_summary(row)), style="soft"),
        )
    return made


def incident_state(row: CaseRow, now: datetime) -> Text:
    """Where it stands, in the word that counts most."""
    if row.closed_at is not None:
        return Text(f"closed: {row.closed_why}", style="good")
    if row.snoozed_until is not None and row.snoozed_until > now:
        return Text(f"snoozed until {clock(row.snoozed_until)}", style="soft")
    if row.trouble is not None:
        return Text(f"step {row.step + 1}: {one_line(row.trouble)}", style="bad")
    if row.acknowledged_by is not None:
        return Text(f"acknowledged by {row.acknowledged_by}", style="live")
    if row.wake_at is None:
        return Text(f"{row.step} steps done", style="odd")
    return Text(f"step {row.step + 1}, {ago(row.wake_at, now)}", style="odd")


def _summary(row: CaseRow) -> str:
    error: object = row.sample.get("error")
    if is_object(error) and error.get("type"):
        return f"{error['type']}: {error.get('message', '')}"
    return str(row.sample.get("text", ""))
