"""`warrener schedule import`: crontabs and Celery beat schedules, and the report of losses."""

import json
import subprocess
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from warrener.importers import ImportResult, Loss, celery_beat, crontab
from warrener.importers.celery_beat import load_python, read_json
from warrener.schedules.schedules_file import parse
from warrener_calendar.template_variables import TICK_NAMES
from warrener_contracts.events import SchedulePutData
from warrener_contracts.schedule_rules import CronRule, IntervalRule
from warrener_contracts.templates import find_mistakes, render

Run = Callable[..., Result]
CRONTAB = r"""
# m h dom mon dow command
MAILTO=ops@airline.example
PATH = "/usr/local/bin:/usr/bin"
30 6 * * MON-FRI   /opt/load.sh today.csv
CRON_TZ=Europe/Berlin
*/5 * * * *  date +\%H; cat%first%second
@daily /opt/load.sh yesterday.csv
@reboot /opt/warm-up
61 * * * * never
0 0 * *
"""
SYSTEM = "17 * * * * root cd / && run-parts /etc/cron.hourly\n"


def of_crontab(text: str, **more: Any) -> dict[str, SchedulePutData]:
    found = crontab.import_schedules(text, job_type="cron.line", **more)
    return {definition.name: definition for definition in found.schedules}


class TestCrontabs:
    def test_each_line_is_a_schedule_whose_job_runs_its_command(self) -> None:
        found = of_crontab(CRONTAB)
        first = found["crontab.load-sh"]
        assert (first.rule, first.timezone) == (CronRule(expression="30 6 * * MON-FRI"), "UTC")
        assert first.job_type == "cron.line"
        exported = "export PATH=/usr/local/bin:/usr/bin\n"
        assert first.arguments == {"command": f"{exported}/opt/load.sh today.csv"}
        second = found["crontab.load-sh-2"]
        assert (second.rule, second.timezone) == (CronRule(expression="@daily"), "Europe/Berlin")

    def test_a_percent_sign_begins_the_input_and_an_escaped_one_is_itself(self) -> None:
        command = of_crontab(CRONTAB)["crontab.date"].arguments["command"]
        done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=True)
        hour, *read = done.stdout.splitlines()
        assert hour.isdigit()
        assert read == ["first", "second"]

    def test_braces_of_a_command_are_its_own_and_name_no_tick(self) -> None:
        line = "docker ps --format '{{.Names}}' {{{ {{ tick.run }}"
        command = of_crontab(f"@daily {line}")["crontab.docker"].arguments["command"]
        assert render(command, {"tick": {"run": 7}}) == line
        assert not [*find_mistakes(command, TICK_NAMES)]

    def test_the_user_of_a_system_crontab_is_reported(self) -> None:
        found = crontab.import_schedules(SYSTEM, job_type="cron.line", system=True, prefix="system")
        assert [definition.name for definition in found.schedules] == ["system.cd"]
        assert found.schedules[0].arguments["command"] == "cd / && run-parts /etc/cron.hourly"
        assert [(one.loss, one.why) for one in found.issues] == [
            (Loss.DIFFERS, "it ran as root: its job runs as the agent's user")
        ]


def of_beat(schedule: object, **entry: Any) -> ImportResult:
    return celery_beat.import_schedules({"one": {"task": "shop.load", "schedule": schedule, **entry}})


class TestCelery:
    @pytest.mark.parametrize(
        ("schedule", "rule"),
        [
            (30, IntervalRule(every=timedelta(seconds=30))),
            (0.5, IntervalRule(every=timedelta(seconds=0.5))),
            (timedelta(hours=2), IntervalRule(every=timedelta(hours=2))),
            ({"every": 5, "period": "minutes"}, IntervalRule(every=timedelta(minutes=5))),
            ({"crontab": {"minute": 0, "hour": "*/3"}}, CronRule(expression="0 */3 * * *")),
            ({"minute": "0,30", "day_of_week": "sunday-tuesday"}, CronRule(expression="0,30 * * * 0-2")),
            ({"hour": "22-2", "minute": "0"}, CronRule(expression="0 22,23,0,1,2 * * *")),
            ({"minute": [5, 3], "month_of_year": "jan,dec"}, CronRule(expression="3,5 * * 1,12 *")),
        ],
    )
    def test_what_has_a_rule(self, schedule: object, rule: CronRule | IntervalRule) -> None:
        (definition,) = of_beat(schedule).schedules
        assert definition.rule == rule

    def test_braces_of_an_argument_are_its_own(self) -> None:
        entry = {
            "task": "mail",
            "schedule": 30,
            "kwargs": {"to": ["{{ name }}"], "size": {"a": "{{b", "n": 1}},
        }
        (definition,) = celery_beat.import_schedules({"mail": entry}).schedules
        assert render(definition.arguments, {}) == entry["kwargs"]

    @pytest.mark.parametrize(
        ("entry", "why"),
        [
            ({"schedule": {"solar": {"event": "sunset"}}}, "rules by the sun do not exist"),
            ({"schedule": {"day_of_month": "1", "day_of_week": "1"}}, "Celery requires both to match"),
            ({"schedule": None}, "expected a schedule, got None"),
            ({"schedule": -1}, "expected an interval"),
            ({"schedule": 1e300}, "expected a Celery schedule, got 1e+300"),
            ({"schedule": {"every": 5, "period": "moons"}}, "expected a Celery schedule, got {'every'"),
            ({"schedule": {"hour": "22-2/0"}}, "expected a Celery schedule"),
            ({"schedule": {"every": 40_000, "period": "days"}}, "every: "),
            ({"schedule": {"minute": range(60), "hour": range(24)}}, "expression: "),
            ({"schedule": 30, "args": [1]}, "their names are unknown"),
            ({"schedule": 30, "enabled": False}, "disabled"),
            ({"schedule": 30, "task": "a task"}, "job_type: String should match pattern"),
        ],
    )
    def test_what_cannot_be_imported_is_left_out_and_reported(self, entry: dict[str, Any], why: str) -> None:
        found = celery_beat.import_schedules({"one": {"task": "shop.load", **entry}})
        assert not found.schedules
        (issue,) = found.issues
        assert (issue.where, issue.loss) == ("one", Loss.LEFT_OUT)
        assert why in issue.why

    def test_arguments_queue_and_options(self) -> None:
        options = {"queue": "slow", "expires": 60, "priority": 3}
        found = of_beat(30, kwargs={"path": "a"}, options=options)
        (definition,) = found.schedules
        assert (definition.job_type, definition.arguments, definition.queue) == (
            "shop.load",
            {"path": "a"},
            "slow",
        )
        assert [issue.why.split(":")[0] for issue in found.issues] == ["expires=60", "options.priority=3"]

    def test_positional_arguments_have_names_where_the_task_is_known(self) -> None:
        entries = {"one": {"task": "shop.load", "schedule": 30, "args": ["a"], "kwargs": {"rows": 3}}}
        found = celery_beat.import_schedules(entries, names_of=lambda _: ["path", "rows"])
        assert found.schedules[0].arguments == {"path": "a", "rows": 3}
        refused = celery_beat.import_schedules(entries, names_of=lambda _: ["rows"])
        assert "shop.load takes rows" in refused.issues[0].why

    def test_a_name_becomes_words(self) -> None:
        found = celery_beat.import_schedules({"every 30 s.": {"task": "a", "schedule": 30}}, prefix="shop.")
        assert found.schedules[0].name == "shop.every-30-s.x"

    def test_entries_as_json_or_in_a_file_of_python(self, tmp_path: Path) -> None:
        entries = {"one": {"task": "shop.load", "schedule": 30}}
        (tmp_path / "beat.json").write_text(json.dumps(entries), encoding="utf-8")
        assert read_json(tmp_path / "beat.json").entries == entries
        text = f"timezone = 'Asia/Tokyo'\nbeat_schedule = {entries!r}\n"
        (tmp_path / "celeryconfig.py").write_text(text, encoding="utf-8")
        beat = load_python(str(tmp_path / "celeryconfig.py"))
        assert (beat.entries, beat.timezone) == (entries, "Asia/Tokyo")
        text = (
            "from types import SimpleNamespace as App\n"
            "def load(path): ...\n"
            f"conf = App(beat_schedule={entries!r}, timezone='UTC')\n"
            "app = App(conf=conf, tasks={'shop.load': App(run=load)})\n"
        )
        (tmp_path / "shop.py").write_text(text, encoding="utf-8")
        assert load_python(str(tmp_path / "shop.py")).names_of("shop.load") == ["path"]


def test_a_real_celery_app(here: Path, run: Run) -> None:
    """Where Celery is installed: with the peers of the benchmarks."""
    pytest.importorskip("celery", reason="Celery is not installed: infra/setup/environment bench")
    (here / "real_celery.py").write_text(
        """
from celery import Celery
from celery.schedules import crontab, schedule

app = Celery("shop", broker="memory://")
app.conf.timezone = "Europe/Berlin"

@app.task(name="shop.load")
def load(path, rows=10):
    pass

app.conf.beat_schedule = {
    "nightly": {"task": "shop.load", "schedule": crontab(minute=30, hour="2"), "args": ("a.csv",)},
    "often": {"task": "shop.load", "schedule": schedule(run_every=90), "kwargs": {"path": "b.csv"}},
    "both": {"task": "shop.load", "schedule": crontab(day_of_month="1", day_of_week="mon")},
}
""",
        encoding="utf-8",
    )
    result = run("schedule", "import", "celery", "real_celery:app", "--strict")
    assert result.exit_code == 4, result.output
    first, second = parse(result.stdout, Path("x")).schedules
    assert (first.name, first.rule) == ("nightly", CronRule(expression="30 2 * * *"))
    assert (first.timezone, first.arguments) == ("Europe/Berlin", {"path": "a.csv"})
    assert second.rule == IntervalRule(every=timedelta(seconds=90))
    assert "left out  both: day_of_month and day_of_week" in result.stderr


class TestTheCommand:
    def test_what_it_writes_can_be_applied_and_the_rest_is_reported(self, run: Run, here: Path) -> None:
        (here / "cron.txt").write_text(CRONTAB, encoding="utf-8")
        words = ("schedule", "import", "crontab", "cron.txt", "--owner", "airport", "-o", "schedules.toml")
        result = run(*words)
        assert result.exit_code == 0, result.output
        assert result.stdout == ""
        written = parse((here / "schedules.toml").read_text(), Path("schedules.toml"))
        assert written.owner == "airport"
        assert [definition.name for definition in written.schedules] == [
            "crontab.load-sh",
            "crontab.date",
            "crontab.load-sh-2",
        ]
        reported = " ".join(result.stderr.split())
        for part in ("differs line 3: MAILTO", "left out line 9: @reboot", "left out line 11: expected five"):
            assert part in reported
        assert "left out line 10: expected a cron expression" in reported
        assert "3 schedules, 3 left out, 1 that differ" in result.stderr
        assert run(*words, "--strict").exit_code == 4

    def test_json_has_both(self, run: Run) -> None:
        result = run("schedule", "import", "crontab", "-", "--json", stdin=CRONTAB)
        found = json.loads(result.stdout)
        assert len(found["schedules"]) == 3
        assert {one["loss"] for one in found["findings"]} == {"left_out", "differs"}

    def test_what_toml_cannot_hold_is_left_out(self, run: Run, here: Path) -> None:
        entries = {"one": {"task": "a", "schedule": 30, "kwargs": {"carrier": None}}}
        (here / "beat.json").write_text(json.dumps(entries), encoding="utf-8")
        result = run("schedule", "import", "celery", "beat.json", "--strict")
        assert result.exit_code == 4
        assert "left out  one: expected what TOML can hold, got None" in result.stderr

    @pytest.mark.parametrize(
        ("words", "expected"),
        [
            (("crontab", "nothing.txt"), "expected a crontab at nothing.txt"),
            (("celery", "nothing.json"), "expected a JSON object of beat entries in nothing.json"),
            (("celery", "no_such_module:app"), "expected to run no_such_module:app, got ModuleNotFoundError"),
        ],
    )
    def test_a_source_that_is_not_there(self, run: Run, words: tuple[str, ...], expected: str) -> None:
        result = run("schedule", "import", *words)
        assert result.exit_code == 1
        assert expected in " ".join(result.stderr.split())
