"""The type of a handler's result, without what it may return in its place. Pure."""

from functools import reduce
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from warrener_agent.failures import OUTCOME_EXCEPTIONS


def result_annotation(hint: Any) -> Any:
    """`int | Snooze` is int: what is returned in place of a result is no result. `Snooze` alone is None."""
    if _is_outcome_exception(hint):
        return NoneType
    if get_origin(hint) not in (Union, UnionType):
        return hint
    results: list[Any] = [each for each in get_args(hint) if not _is_outcome_exception(each)]
    return reduce(lambda one, other: one | other, results) if results else NoneType


def _is_outcome_exception(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, OUTCOME_EXCEPTIONS)
