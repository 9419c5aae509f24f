"""Plans of `warrener schedule apply` and backfills as lines and tables. Pure."""

from collections.abc import Iterator, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from warrener.render.schedules import rule_text
from warrener.render.screen import table
from warrener.schedules.backfill import BackfillTick, BackfillTickStatus
from warrener.schedules.plan import Plan, PlanAction

_PLAN_MARKS = {
    PlanAction.ADD: ("+", "good"),
    PlanAction.CHANGE: ("~", "warning"),
    PlanAction.REMOVE: ("-", "error"),
}


def span_table(ticks: Sequence[BackfillTick]) -> Table:
    """The ticks of a backfill with their statuses, one a line."""
    made = table("nominal time", "status", "job")
    for tick in ticks:
        style = "live" if tick.status is BackfillTickStatus.REQUESTED else "soft"
        job = "" if tick.job_id is None else str(tick.job_id)
        made.add_row(
            f"{tick.nominal_at:%Y-%m-%d %H:%M:%S}Z",
            Text(tick.status.value.replace("_", " "), style=style),
            job,
        )
    return made


def plan_lines(plan: Plan) -> Iterator[Text]:
    """A line for each schedule that changes, and one for each field that differs."""
    for step in plan.to_do:
        mark, style = _PLAN_MARKS[step.action]
        about = ""
        if step.action is PlanAction.ADD and step.wanted is not None:
            about = f"{step.wanted.job_type}, {rule_text(step.wanted.rule)}"
        yield Text.assemble((f"{mark} {step.name}", style), f"  {about}")
        for found in step.differs:
            yield Text.assemble(
                f"    {found.field}: ",
                (_value_text(found.before), "soft"),
                " → ",
                (_value_text(found.after), "key"),
            )
    yield Text(summary(plan))


def summary(plan: Plan) -> str:
    """Number of changes of each kind."""
    counts = [f"{plan.count(action):,} to {action}" for action in _PLAN_MARKS]
    return f"{', '.join(counts)}, {plan.count(PlanAction.UNCHANGED):,} unchanged"


def _value_text(value: Any) -> str:
    return "unset" if value is None else str(value)
