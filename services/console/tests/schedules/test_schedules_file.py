"""Files of schedules: every field, the place of every mistake, and what is written is read back."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warrener.schedules import schedules_file
from warrener.schedules.calendar import find_problem
from warrener.schedules.plan import FieldChange, PlanAction, make_plan
from warrener.schedules.rules import expand_rule
from warrener_contracts.events import SchedulePutData
from warrener_contracts.policy import Backoff, PolicyOverrides
from warrener_contracts.schedule_rules import (
    CronRule,
    DstGap,
    DstOverlap,
    IntervalRule,
    OnceRule,
    ScheduleChoices,
)
from warrener_contracts.schedule_words import MisfirePolicy, OverlapPolicy

FILE = Path("schedules.toml")
GUIDE = Path(__file__).parents[4] / "docs" / "howto" / "schedule-jobs.md"
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
EVERYTHING = SchedulePutData(
    name="flights.hourly",
    rule=CronRule(expression="30 * * * MON-FRI"),
    timezone="Europe/Berlin",
    job_type="flights.load",
    arguments={"path": 'a "b" \\ \x7f é\n.csv', "odd key.": [1, 2.5, True, {"x": []}], "empty": {}},
    queue="loading",
    policy=PolicyOverrides(max_attempts=3, backoff=Backoff(first=timedelta(seconds=5))),
    choices=ScheduleChoices(
        dst_gap=DstGap.SKIP,
        dst_overlap=DstOverlap.BOTH,
        misfire=MisfirePolicy.WINDOW,
        max_catch_up=3,
        catch_up_window=timedelta(hours=2),
        grace=timedelta(seconds=30),
        overlap=OverlapPolicy.QUEUE_ONE,
        jitter=timedelta(seconds=5),
        start=NOON,
        end=NOON + timedelta(days=365),
        max_runs=5000,
    ),
)
RULES = [
    CronRule(expression="@daily"),
    IntervalRule(every=timedelta(seconds=90)),
    IntervalRule(every=timedelta(hours=2), anchor=NOON, offset=timedelta(minutes=5)),
    OnceRule(at=NOON),
    OnceRule(after=timedelta(hours=1)),
]


def guide_file(name: str) -> str:
    """A file of the guide, which names itself in its first line."""
    blocks: list[str] = re.findall(r"```toml\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    return next(block for block in blocks if block.startswith(f"# {name}\n"))


def read(text: str) -> tuple[SchedulePutData, ...]:
    return schedules_file.parse(text, FILE).schedules


class TestReading:
    def test_a_file_as_a_person_writes_it(self) -> None:
        parsed = schedules_file.parse(
            """
owner = "airport"

[defaults]
timezone = "Europe/Berlin"
choices = { overlap = "skip", grace = "1m" }

[[schedule]]
name = "flights.hourly"
job_type = "flights.load"
cron = "30 * * * MON-FRI"
arguments = { path = "today.csv" }
choices = { misfire = "all" }

[[schedule]]
name = "launch"
job_type = "mail.send"
at = 2026-12-24T18:00:00+01:00

[[schedule]]
name = "ping"
job_type = "mail.ping"
rule = { kind = "interval", every = "90s" }
timezone = "UTC"
""",
            FILE,
        )
        first, second, third = parsed.schedules
        assert parsed.owner == first.owner == "airport"
        assert (first.timezone, third.timezone) == ("Europe/Berlin", "UTC")
        assert first.choices == ScheduleChoices(
            overlap=OverlapPolicy.SKIP, grace=timedelta(minutes=1), misfire=MisfirePolicy.ALL
        )
        assert second.rule == OnceRule(at=datetime(2026, 12, 24, 17, tzinfo=UTC))
        assert third.rule == IntervalRule(every=timedelta(seconds=90))
        assert parsed.lines == (8, 15, 20)

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("schedule = 1", "schedules.toml:1: schedule: expected tables headed [[schedule]], got 1"),
            ("owner = ", "schedules.toml: expected TOML, got: Invalid value (at "),
            ('ownr = "x"', "schedules.toml:1: ownr: expected one of owner, defaults, schedule, got 'ownr'"),
            ('owner = "code"', "schedules.toml:1: owner: expected another label than 'code'"),
            ("[defaults]\nname = 1", "schedules.toml:2: name: defaults: expected one of timezone, queue"),
            ("[[schedule]]\nname = 'a'", "schedules.toml:1: [[schedule]] 1 (a): expected one of rule, cron"),
            ("[[schedule]]\nname = 'a'\njob_type = 'b'\ncron = '@daily'\nevery = '1s'", "got cron and every"),
            (
                "[[schedule]]\nname = 'a'\ncorn = '@daily'",
                "schedules.toml:3: [[schedule]] 1 (a): corn: expected one of",
            ),
            (
                "[[schedule]]\nname = 'a'\njob_type = 'b'\ncron = '@daily'\n\n"
                "[[schedule]]\nname = 'c'\njob_type = 'b'\nevery = 'often'",
                "schedules.toml:9: [[schedule]] 2 (c): rule.interval.every: expected a duration",
            ),
            (
                "[[schedule]]\nname = 'a'\njob_type = 'b'\ncron = '@daily'\nchoices = { overlap = 'never' }",
                "schedules.toml:5: [[schedule]] 1 (a): choices.overlap: Input should be 'allow', 'skip'",
            ),
            (
                "[[schedule]]\nname = 'a'\njob_type = 'b'\ncron = '@daily'\n"
                "[schedule.choices]\nmisfires = 'all'",
                "schedules.toml:6: [[schedule]] 1 (a): choices.misfires: expected one of catch_up_window",
            ),
            (
                "[[schedule]]\nname = 'a'\njob_type = 'b'\ncron = '@daily'\n" * 2,
                "schedules.toml:6: [[schedule]] 2 (a): name: expected each name once, got 'a' again",
            ),
            (
                "[[schedule]]\ncron = '@daily'\njob_type = 'b'",
                "schedules.toml:1: [[schedule]] 1: name: Field",
            ),
        ],
    )
    def test_a_mistake_has_its_place(self, text: str, expected: str) -> None:
        with pytest.raises(schedules_file.FileError) as raised:
            read(text)
        assert expected in raised.value.sentence

    def test_a_line_that_is_unknown_is_not_guessed(self) -> None:
        assert schedules_file.TomlLines("schedule = [{ name = 'a' }]", "schedule").find_line(0) is None
        assert schedules_file.TomlLines("a = 1\n[[schedule]]\nb = 2", "schedule").find_line(0, "c") == 2


def test_the_file_of_the_guide_has_the_schedules_of_the_guide() -> None:
    parsed = schedules_file.parse(guide_file("schedules.toml"), FILE)
    hourly, sweep = parsed.schedules
    assert [*map(find_problem, parsed.schedules)] == [None, None]
    assert (parsed.owner, hourly.timezone, sweep.timezone) == ("airport", "Europe/Berlin", "UTC")
    assert sweep.choices.overlap is OverlapPolicy.SKIP
    assert sweep.choices.misfire is MisfirePolicy.WINDOW


@pytest.mark.parametrize("name", ["payroll.toml", "landed.toml"])
def test_the_rule_files_of_the_guide_are_complete_schedules(name: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_text(guide_file(name), encoding="utf-8")
    table = schedules_file.read_rule_file(file)
    definition = schedules_file.make_definition(
        {**table, "rule": expand_rule(table), "name": "a", "job_type": "b"}
    )
    assert find_problem(definition) is None


def test_what_a_scheduler_would_refuse_is_found_before_it_is_requested() -> None:
    unknown = EVERYTHING.model_copy(update={"arguments": {"day": "{{ tick.day }}"}})
    never = EVERYTHING.model_copy(update={"rule": CronRule(expression="0 0 30 2 *")})
    first, second, third = map(find_problem, [unknown, never, EVERYTHING])
    assert first is not None
    assert "got '{{ tick.day }}'" in first
    assert second is not None
    assert third is None


class TestWriting:
    @pytest.mark.parametrize("rule", RULES, ids=str)
    def test_what_is_written_is_read_back(self, rule: CronRule | IntervalRule | OnceRule) -> None:
        schedules = (EVERYTHING, EVERYTHING.model_copy(update={"name": "other", "rule": rule}))
        assert read(schedules_file.render_schedules(schedules)) == schedules

    def test_owner_and_heading_stand_at_the_top(self) -> None:
        text = schedules_file.render_schedules([EVERYTHING], "airport", "From a crontab.\n\nSee the report.")
        assert text.startswith('# From a crontab.\n#\n# See the report.\nowner = "airport"\n\n[[schedule]]\n')
        assert read(text)[0].owner == "airport"

    @given(st.dictionaries(st.text(min_size=1), st.text() | st.integers(-(2**53), 2**53) | st.booleans()))
    def test_any_argument_comes_back(self, arguments: dict[str, object]) -> None:
        try:
            definition = SchedulePutData.model_validate({**EVERYTHING.model_dump(), "arguments": arguments})
        except ValueError:
            return  # the wire refuses it
        assert read(schedules_file.render_schedules([definition])) == (definition,)


class TestPlans:
    def test_each_schedule_has_a_step_and_each_field_that_differs_is_named(self) -> None:
        new, same = (EVERYTHING.model_copy(update={"name": name}) for name in ("new", "same"))
        changed = EVERYTHING.model_copy(
            update={"arguments": {"path": "b.csv"}, "choices": ScheduleChoices(), "owner": "airport"}
        )
        held = {
            "flights.hourly": EVERYTHING.model_copy(update={"arguments": {"path": "a.csv"}}),
            "same": same,
        }
        plan = make_plan([new, changed, same], held)
        assert {step.name: step.action for step in plan.steps} == {
            "new": PlanAction.ADD,
            "flights.hourly": PlanAction.CHANGE,
            "same": PlanAction.UNCHANGED,
        }
        differs = {found.field: found for found in plan.steps[0].differs}
        assert differs["arguments.path"] == FieldChange("arguments.path", "a.csv", "b.csv")
        assert differs["owner"] == FieldChange("owner", None, "airport")
        assert differs["choices.overlap"].after == "allow"
        assert "timezone" not in differs
        assert plan.puts == [changed, new]

    def test_only_what_bears_the_owners_label_is_pruned(self) -> None:
        held = {
            name: EVERYTHING.model_copy(update={"name": name, "owner": owner})
            for name, owner in {
                "mine": "airport",
                "theirs": "harbour",
                "nobodys": None,
                "agents": "code",
            }.items()
        }
        assert make_plan([], held, owner="airport", prune=True).removed == ["mine"]
        assert make_plan([], held, owner="airport").to_do == []
        assert make_plan([], held, prune=True).to_do == []
