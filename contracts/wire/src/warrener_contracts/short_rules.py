"""The rules that people write in one word: `cron = "…"` for a rule of the kind cron, and so on. Pure."""

from collections.abc import Mapping
from typing import Any

_KINDS: Mapping[str, tuple[str, str]] = {
    "cron": ("cron", "expression"),
    "every": ("interval", "every"),
    "at": ("once", "at"),
    "after": ("once", "after"),
}
_OF_INTERVALS = ("anchor", "offset")
SHORT_RULE_FIELDS = frozenset((*_KINDS, *_OF_INTERVALS))
"""The words that make a rule, beside `rule` itself."""


def expand_short_rule(options: Mapping[str, Any]) -> Any:
    """The rule that these words mean: as it stands under `rule`, or by one of the short forms.

    Raises ValueError unless exactly one is said.
    """
    given = [word for word in ("rule", *_KINDS) if options.get(word) is not None]
    if len(given) != 1:
        raise ValueError(
            f"expected one of rule, {', '.join(_KINDS)}, got {' and '.join(given) or 'none of them'}"
        )
    of_intervals = {word: options[word] for word in _OF_INTERVALS if options.get(word) is not None}
    if of_intervals and given != ["every"]:
        raise ValueError(f"expected {' and '.join(of_intervals)} beside every alone, got {given[0]}")
    if given == ["rule"]:
        return options["rule"]
    kind, field = _KINDS[given[0]]
    return {"kind": kind, field: options[given[0]], **of_intervals}
