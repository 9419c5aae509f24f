"""What the supervisor is to watch schedules for, as their owners chose. Pure."""

from collections.abc import Iterable

from warrener_store.schedules.rows import ScheduleRow, WatchRow


def watches_of(rows: Iterable[ScheduleRow]) -> list[WatchRow]:
    """The expectations of those that have any."""
    return [
        WatchRow(
            name=row.name,
            pause_after=choices.pause_after_failures,
            success_within=choices.expect_success_within,
            since=row.put_at,
            look_at=row.put_at,
        )
        for row in rows
        if (choices := row.asked.choices).pause_after_failures or choices.expect_success_within
    ]
