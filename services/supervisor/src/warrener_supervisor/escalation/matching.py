"""Which ladder follows a case: the first of the file that matches. Pure."""

import re
from collections.abc import Iterable
from functools import lru_cache

from warrener_store.escalations import CaseRow
from warrener_supervisor.escalation.facts import error_of
from warrener_supervisor.escalation.model import DEFAULT_LADDER, Escalation, Ladder


def ladder_of(case: CaseRow, escalation: Escalation) -> Ladder:
    """The first ladder that matches; else the default one, so that nothing passes unseen."""
    return next((ladder for ladder in escalation.ladders if matches(ladder, case)), DEFAULT_LADDER)


def matches(ladder: Ladder, case: CaseRow) -> bool:
    """Whether its kind, its job type and its error are among the ladder's. An error is known by its own name
    and by those of the classes that it derives from."""
    return (
        _any(ladder.kinds, [case.kind])
        and _any(ladder.job_types, [case.job_type or ""])
        and _any(ladder.errors, _names_of_error(case))
    )


def _names_of_error(case: CaseRow) -> list[str]:
    error = error_of(case)
    return [str(error.get("type", "")), *map(str, error.get("bases", ()))]


def _any(patterns: Iterable[str], names: Iterable[str]) -> bool:
    return any(_pattern(pattern).fullmatch(name) for name in names for pattern in patterns)


@lru_cache(maxsize=1024)
def _pattern(written: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in written.split("*")), re.DOTALL)
