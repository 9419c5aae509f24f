"""The namespace of a system on its broker: its default and its form. `bus.namespace` applies it."""

import re

DEFAULT_NAMESPACE = "warrener"
_SHAPE = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")


def validate_namespace(namespace: str) -> str:
    """Check and return a namespace. Raises ValueError."""
    if not _SHAPE.fullmatch(namespace):
        raise ValueError("1 to 40 of a-z, 0-9, _ and -, first of them a-z or 0-9, such as `shop-2`")
    return namespace
