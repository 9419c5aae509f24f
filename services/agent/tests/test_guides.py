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


async def test_the_handlers_of_the_guide_to_retries_do_what_it_describes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declares, _, report = blocks("choose-a-retry-policy.md")
    guide: dict[str, Any] = {"__name__": "bank"}
    exec(declares, guide)
    exec(report, guide)
    agent = guide["agent"]
    assert isinstance(agent, Agent)
    policy = agent.definitions["bank.pay"].declaration.policy
    assert (policy.max_attempts, policy.max_age) == (8, timedelta(days=2))
    assert policy.backoff == Backoff.listed("5s", "1m", "15m", "6h")
    assert (policy.retry_on, policy.no_retry_on) == (
        ("OSError", "requests.*"),
        ("bank.Closed", "*.ProxyError"),
    )
    monkeypatch.chdir(tmp_path)
    assert (await run(agent, "report.send", {"day": "monday"})).handler_signal == "snoozed"
    (tmp_path / "monday.csv").touch()
    assert (await run(agent, "report.send", {"day": "monday"})).handler_signal == "cancelled"
    (tmp_path / "monday.csv").write_text("a,b\n")
    assert (await run(agent, "report.send", {"day": "monday"})).result == 4


def test_the_guide_to_schedules_declares_what_it_describes() -> None:
    block = next(block for block in blocks("schedule-jobs.md") if "@agent.schedule" in block)
    guide: dict[str, Any] = {"__name__": "flights"}
    exec(block, guide)
    (declared,) = guide["agent"].schedules
    assert declared.schedule.name == "flights.hourly"


def test_the_guide_to_imports_has_the_job_type_that_a_crontab_needs() -> None:
    (block,) = blocks("import-schedules.md")
    guide: dict[str, Any] = {"__name__": "lines"}
    exec(block, guide)
    assert set(guide["agent"].definitions) == {"cron.line"}
