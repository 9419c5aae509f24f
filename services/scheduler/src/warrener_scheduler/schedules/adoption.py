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

    ADOPT = "taken_up"
    ALREADY_ADOPTED = "known"  # it was taken up before, whatever has become of it
    OPERATOR_OWNED = "operators"  # somebody else has put this schedule, and keeps it


def decide_adoption(
    name: str, digest: str, known: Collection[tuple[str, str]], existing: SchedulePutData | None
) -> Adoption:
    """What to do about the declaration of this schedule, `existing` being what is asked for now."""
    if (name, digest) in known:
        return Adoption.ALREADY_ADOPTED
    if existing is not None and existing.owner != CODE_OWNER:
        return Adoption.OPERATOR_OWNED
    return Adoption.ADOPT


def spec_from_declaration(declaration: ScheduleDeclaration) -> SchedulePutData:
    """What is asked for where the declaration is taken up."""
    return declaration.schedule.model_copy(update={"owner": CODE_OWNER, "reply_to": None})


def declaration_digest(declaration: ScheduleDeclaration) -> str:
    """The same for what says the same. What is as usual is left out, so that a field that comes later makes
    no news of what is known."""
    spec = declaration.schedule
    fields = spec.model_dump(mode="json", exclude_defaults=True, exclude={"owner", "reply_to", "rule"})
    rule = spec.rule.model_dump(mode="json", exclude_none=True)
    fields = {"edition": declaration.edition, "rule": rule, "arguments": spec.arguments, **fields}
    return sha256(to_json(dict(sorted(fields.items())))).hexdigest()[:16]
