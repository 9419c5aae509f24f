"""What becomes of a schedule that an agent's code declares. Pure.

A declaration is news once: it is taken up when it is first heard, and never again. So no restart undoes what
an operator has said since, and agents of two releases that restart in turns change nothing.
"""

from collections.abc import Collection
from enum import StrEnum
from hashlib import sha256

from pydantic_core import to_json

from warrener_contracts.events import ScheduleDeclaration, SchedulePutData
from warrener_contracts.events.schedules import CODE_OWNER


class Adoption(StrEnum):
    """What is done about a declaration."""

    TAKEN_UP = "taken_up"
    KNOWN = "known"  # it was taken up before, whatever has become of it
    OPERATORS = "operators"  # somebody else has put this schedule, and keeps it


def adoption(
    name: str, fingerprint: str, known: Collection[tuple[str, str]], held: SchedulePutData | None
) -> Adoption:
    """What to do about the declaration of this schedule, `held` being what is asked for now."""
    if (name, fingerprint) in known:
        return Adoption.KNOWN
    if held is not None and held.owner != CODE_OWNER:
        return Adoption.OPERATORS
    return Adoption.TAKEN_UP


def declared(declaration: ScheduleDeclaration) -> SchedulePutData:
    """What is asked for where the declaration is taken up."""
    return declaration.schedule.model_copy(update={"owner": CODE_OWNER, "reply_to": None})


def fingerprint_of(declaration: ScheduleDeclaration) -> str:
    """The same for what says the same. What is as usual is left out, so that a field that comes later makes
    no news of what is known."""
    asked = declaration.schedule
    said = asked.model_dump(mode="json", exclude_defaults=True, exclude={"owner", "reply_to", "rule"})
    rule = asked.rule.model_dump(mode="json", exclude_none=True)
    said = {"edition": declaration.edition, "rule": rule, "arguments": asked.arguments, **said}
    return sha256(to_json(dict(sorted(said.items())))).hexdigest()[:16]
