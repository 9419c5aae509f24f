"""Changes that make schedules equal to a file. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from warrener_contracts.events import SchedulePutData
from warrener_contracts.json_safety import is_object


class PlanAction(StrEnum):
    """Change of one schedule."""

    ADD = "add"
    CHANGE = "change"
    REMOVE = "remove"
    UNCHANGED = "unchanged"


class FieldChange(NamedTuple):
    """One field that differs; None is an unset field."""

    field: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class PlanStep:
    """Change of one schedule in a plan."""

    name: str
    action: PlanAction
    wanted: SchedulePutData | None = None
    differs: tuple[FieldChange, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """All steps, by name."""

    steps: tuple[PlanStep, ...]

    @property
    def to_do(self) -> list[PlanStep]:
        """Steps that change something."""
        return [step for step in self.steps if step.action is not PlanAction.UNCHANGED]

    @property
    def puts(self) -> list[SchedulePutData]:
        return [step.wanted for step in self.to_do if step.wanted is not None]

    @property
    def removed(self) -> list[str]:
        return [step.name for step in self.to_do if step.action is PlanAction.REMOVE]

    def count(self, action: PlanAction) -> int:
        return sum(step.action is action for step in self.steps)


def make_plan(
    wanted: Sequence[SchedulePutData],
    current: Mapping[str, SchedulePutData],
    *,
    owner: str | None = None,
    prune: bool = False,
) -> Plan:
    """Plan the changes from `current` to `wanted`.

    `prune` removes schedules with the owner's label that are not wanted, and never any other.
    """
    steps = [_step(definition, current.get(definition.name)) for definition in wanted]
    if prune and owner is not None:
        names = {definition.name for definition in wanted}
        steps += [
            PlanStep(name, PlanAction.REMOVE)
            for name, definition in current.items()
            if definition.owner == owner and name not in names
        ]
    return Plan(tuple(sorted(steps, key=lambda step: step.name)))


def _step(wanted: SchedulePutData, current: SchedulePutData | None) -> PlanStep:
    if current is None:
        return PlanStep(wanted.name, PlanAction.ADD, wanted)
    before, after = (
        _flat(one.model_dump(mode="json", exclude_none=True, exclude={"reply_to"}))
        for one in (current, wanted)
    )
    differs = tuple(
        FieldChange(key, before.get(key), after.get(key))
        for key in sorted(before.keys() | after.keys())
        if before.get(key) != after.get(key)
    )
    return PlanStep(wanted.name, PlanAction.CHANGE if differs else PlanAction.UNCHANGED, wanted, differs)


def _flat(value: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    flat = dict[str, Any]()
    for key, one in value.items():
        if is_object(one) and one:
            flat |= _flat(one, f"{path}{key}.")
        else:
            flat[f"{path}{key}"] = one
    return flat
