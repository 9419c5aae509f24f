"""For which values an optional field is not written: an event says no more than it did in version 1.0 until
somebody uses what came later."""


def is_unset(value: object) -> bool:
    """None, False, or empty: the same as silence."""
    return value is None or value is False or value == ()


def is_none(value: object) -> bool:
    """None alone: an empty list says something."""
    return value is None


def is_zero(value: object) -> bool:
    """A count of nothing."""
    return value == 0
