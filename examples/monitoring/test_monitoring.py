"""Monitoring: the job by the test kit, and the files that it comes with."""

import asyncio
from pathlib import Path

from examples.monitoring.handlers import agent

from warrener.schedules.schedules_file import read_file
from warrener_agent.testing import Trial, run
from warrener_supervisor.escalation import policy_file


def report(**arguments: object) -> Trial:
    return asyncio.run(run(agent, "monitoring.report", arguments))


def test_a_report_has_the_figures_of_this_host(tmp_path: Path) -> None:
    figures = report(disk=str(tmp_path), disk_limit=1, load_limit=1e6).result
    assert 0 < figures["disk"] <= 1
    assert figures["load"] >= 0


def test_a_figure_over_its_limit_fails_and_is_not_retried() -> None:
    error = report(disk_limit=0, load_limit=1e6).error
    assert error is not None
    assert not error.retryable
    assert "expected at most 0.0 of /" in error.message


def test_each_host_has_a_schedule_with_its_queue_and_an_alarm() -> None:
    schedules = read_file(Path(__file__).with_name("schedules.toml")).schedules
    assert [(one.name, one.queue) for one in schedules] == [("host-a", "host-a"), ("host-b", "host-b")]
    assert all(one.choices.expect_success_within for one in schedules)
    assert all(one.job_type in agent.definitions for one in schedules)


def test_the_alert_of_a_missing_report_is_urgent() -> None:
    silent, *_ = policy_file.read(Path(__file__).with_name("escalation.toml")).policies
    assert [step.do for step in silent.steps] == ["alert"]
