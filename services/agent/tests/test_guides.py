"""The Python of the guides declares what the text describes."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from warrener_agent import Agent, Backoff
from warrener_agent.testing import run

HOWTO = Path(__file__).parents[3] / "docs" / "howto"


def blocks(guide: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (HOWTO / guide).read_text("utf-8"), re.DOTALL)


def declared(block: str, module: str) -> Agent:
    guide: dict[str, Any] = {"__name__": module}
    exec(block, guide)
    agent = guide["agent"]
    assert isinstance(agent, Agent)
    return agent


async def test_the_handlers_of_the_guide_to_retries_do_what_it_describes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bank, _, reports = blocks("choose-a-retry-policy.md")
    agent = declared(bank, "bank")
    policy = agent.definitions["bank.pay"].declaration.policy
    assert (policy.max_attempts, policy.max_age) == (8, timedelta(days=2))
    assert policy.backoff == Backoff.listed("5s", "1m", "15m", "6h")
    assert (policy.retry_on, policy.no_retry_on) == (
        ("OSError", "requests.*"),
        ("bank.Closed", "*.ProxyError"),
    )

    agent = declared(reports, "reports")
    monkeypatch.chdir(tmp_path)
    assert (await run(agent, "report.send", {"day": "monday"})).handler_signal == "snoozed"
    (tmp_path / "monday.csv").touch()
    assert (await run(agent, "report.send", {"day": "monday"})).handler_signal == "cancelled"
    (tmp_path / "monday.csv").write_text("a,b\n")
    assert (await run(agent, "report.send", {"day": "monday"})).result == 4


def test_the_guide_to_schedules_declares_what_it_describes() -> None:
    block = next(block for block in blocks("schedule-jobs.md") if "@agent.schedule" in block)
    (schedule,) = declared(block, "flights").schedules
    assert schedule.schedule.name == "flights.hourly"


def test_the_guide_to_imports_has_the_job_type_that_a_crontab_needs() -> None:
    (block,) = blocks("import-schedules.md")
    assert set(declared(block, "lines").definitions) == {"cron.line"}


async def test_the_guide_to_checkpoints_continues_where_the_last_attempt_stopped(tmp_path: Path) -> None:
    (block,) = blocks("save-a-checkpoint.md")
    (tmp_path / "rows.txt").write_text("row\n" * 420)
    agent = declared(block.replace('executor="process", ', ""), "files")
    trial = await run(agent, "files.import", {"path": str(tmp_path / "rows.txt")}, last_checkpoint=300)
    assert (trial.result, trial.checkpoints) == (420, [400])
