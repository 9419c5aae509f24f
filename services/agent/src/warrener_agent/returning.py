"""The type of a handler's result, without what it may return in its place. Pure."""

from functools import reduce
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from warrener_agent.failures import WISHES


def result_hint(hint: Any) -> Any:
    """`int | Snooze` is int: what is returned in place of a result is no result. `Snooze` alone is None."""
    if _is_wish(hint):
        return NoneType
    if get_origin(hint) not in (Union, UnionType):
        return hint
    results: list[Any] = [each for each in get_args(hint) if not _is_wish(each)]
    return reduce(lambda one, other: one | other, results) if results else NoneType


def _is_wish(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, WISHES)
