"""Whether an event passes the conditions of a rule. Pure; data is compared with data, and nothing is run."""

from collections.abc import Iterable, Mapping
from typing import Any

from warrener_contracts.json_safety import is_array, is_object
from warrener_contracts.triggers import Condition, ConditionOperator

_NOTHING = object()


def passes(document: Mapping[str, Any], where: Iterable[Condition]) -> bool:
    """Whether all of these hold."""
    return all(_holds(condition, _at(document, condition.path)) for condition in where)


def _at(document: object, path: str) -> object:
    """The value at a path; `_NOTHING` where there is none."""
    value: object = document
    for name in path.split("."):
        if is_object(value) and name in value:
            value = value[name]
        elif is_array(value) and name.isascii() and name.isdigit() and int(name) < len(value):
            value = value[int(name)]
        else:
            return _NOTHING
    return value


def _holds(condition: Condition, found: object) -> bool:
    match condition.check:
        case ConditionOperator.EXISTS | ConditionOperator.ABSENT as check:
            return (found is not _NOTHING) == (check is ConditionOperator.EXISTS)
        case ConditionOperator.EQUALS | ConditionOperator.DIFFERS as check:
            return _same(found, condition.value) == (check is ConditionOperator.EQUALS)
        case ConditionOperator.ONE_OF:
            return any(_same(found, one) for one in condition.value)
        case check:
            return _in_order(check, found, condition.value)


def _same(found: object, wanted: object) -> bool:
    """As JSON sees it: true is not 1."""
    return isinstance(found, bool) == isinstance(wanted, bool) and found == wanted


def _in_order(check: ConditionOperator, found: Any, wanted: Any) -> bool:
    numbers = _number(found) and _number(wanted)
    if not numbers and not (isinstance(found, str) and isinstance(wanted, str)):
        return False
    match check:
        case ConditionOperator.LESS:
            return bool(found < wanted)
        case ConditionOperator.AT_MOST:
            return bool(found <= wanted)
        case ConditionOperator.MORE:
            return bool(found > wanted)
        case _:
            return bool(found >= wanted)


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
