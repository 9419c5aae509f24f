"""What has to be done so that schedules are as a file says. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from warrener_contracts.events import SchedulePutData
from warrener_contracts.json_safety import is_object


class Action(StrEnum):
    """What becomes of one schedule."""

    ADD = "add"
    CHANGE = "change"
    REMOVE = "remove"
    UNCHANGED = "unchanged"


class Difference(NamedTuple):
    """One field that differs; None: it is not said."""

    field: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class Step:
    """One schedule of the plan."""

    name: str
    action: Action
    wanted: SchedulePutData | None = None
    differs: tuple[Difference, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """All of them, by name."""

    steps: tuple[Step, ...]

    @property
    def to_do(self) -> list[Step]:
        """Those that change something."""
        return [step for step in self.steps if step.action is not Action.UNCHANGED]

    @property
    def puts(self) -> list[SchedulePutData]:
        """What is asked for."""
        return [step.wanted for step in self.to_do if step.wanted is not None]

    @property
    def removed(self) -> list[str]:
        """The names of those that go."""
        return [step.name for step in self.to_do if step.action is Action.REMOVE]

    def count(self, action: Action) -> int:
        """How many schedules this becomes of."""
        return sum(step.action is action for step in self.steps)


def plan_of(
    wanted: Sequence[SchedulePutData],
    held: Mapping[str, SchedulePutData],
    *,
    owner: str | None = None,
    prune: bool = False,
) -> Plan:
    """How to come from what is held to what is wanted. With `prune`, what bears the owner's label and is
    wanted no more goes; what bears none, or another one, never does."""
    steps = [_step(asked, held.get(asked.name)) for asked in wanted]
    if prune and owner is not None:
        names = {asked.name for asked in wanted}
        steps += [
            Step(name, Action.REMOVE)
            for name, asked in held.items()
            if asked.owner == owner and name not in names
        ]
    return Plan(tuple(sorted(steps, key=lambda step: step.name)))


def _step(wanted: SchedulePutData, held: SchedulePutData | None) -> Step:
    if held is None:
        return Step(wanted.name, Action.ADD, wanted)
    before, after = _flat(_told(held)), _flat(_told(wanted))
    differs = tuple(
        Difference(key, before.get(key), after.get(key))
        for key in sorted(before.keys() | after.keys())
        if before.get(key) != after.get(key)
    )
    return Step(wanted.name, Action.CHANGE if differs else Action.UNCHANGED, wanted, differs)


def _told(asked: SchedulePutData) -> dict[str, Any]:
    return asked.model_dump(mode="json", exclude_none=True, exclude={"reply_to"})


def _flat(value: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    flat = dict[str, Any]()
    for key, one in value.items():
        if is_object(one) and one:
            flat |= _flat(one, f"{path}{key}.")
        else:
            flat[f"{path}{key}"] = one
    return flat
