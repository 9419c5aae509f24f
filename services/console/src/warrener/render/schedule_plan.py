"""What applying a file of schedules would do, for people to read."""

from collections.abc import Iterator
from typing import Any

from rich.text import Text

from warrener.render.rules import rule_text
from warrener.scheduling.plan import Plan, PlanAction, PlanStep

_MARKS = {PlanAction.ADD: ("+", "good"), PlanAction.CHANGE: ("~", "odd"), PlanAction.REMOVE: ("-", "bad")}


def plan_lines(plan: Plan) -> Iterator[Text]:
    """A line for each schedule that changes, and one for each field that differs."""
    for step in plan.to_do:
        mark, style = _MARKS[step.action]
        yield Text.assemble((f"{mark} {step.name}", style), f"  {_about(step)}")
        for found in step.differs:
            yield Text.assemble(
                f"    {found.field}: ",
                (_value_text(found.before), "soft"),
                " → ",
                (_value_text(found.after), "key"),
            )
    yield Text(summary(plan))


def summary(plan: Plan) -> str:
    """How many of each."""
    counts = [f"{plan.count(action):,} to {action}" for action in _MARKS]
    return f"{', '.join(counts)}, {plan.count(PlanAction.UNCHANGED):,} unchanged"


def _about(step: PlanStep) -> str:
    if step.action is not PlanAction.ADD or step.wanted is None:
        return ""
    return f"{step.wanted.job_type}, {rule_text(step.wanted.rule)}"


def _value_text(value: Any) -> str:
    return "not said" if value is None else str(value)
