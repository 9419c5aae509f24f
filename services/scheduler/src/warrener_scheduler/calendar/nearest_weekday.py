"""What `15W` means: the weekday nearest to a day of the month, within the month. Pure."""

from calendar import monthrange, weekday


def nearest_weekday(year: int, month: int, day: int) -> int | None:
    """The day of the month: `day` itself from Monday to Friday, the Friday before a Saturday, the Monday
    after a Sunday; the nearest one that lies in the month. None where the month has no such day."""
    last = monthrange(year, month)[1]
    if day > last:
        return None
    match weekday(year, month, day):
        case 5:  # Saturday
            return day - 1 if day > 1 else day + 2
        case 6:  # Sunday
            return day + 1 if day < last else day - 2
        case _:
            return day
