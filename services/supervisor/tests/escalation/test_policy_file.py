"""The escalation file: what it may say, and how it is told what is wrong with it."""

import asyncio
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from services.supervisor.tests.escalation.test_decisions import incident
from services.supervisor.tests.event_factory import make

from warrener_contracts.events import ErrorInfo, ErrorKind
from warrener_contracts.state_machine import JobState
from warrener_contracts.templates import TemplateError, render
from warrener_runtime.settings import SettingsError
from warrener_supervisor.escalation.alerts import render_alert
from warrener_supervisor.escalation.decisions import policy_of
from warrener_supervisor.escalation.facts import (
    ALERT_NAMES,
    COMPENSATION_NAMES,
    alert_values,
    compensation_values,
    sample_of,
)
from warrener_supervisor.escalation.job_steps import compensation_request
from warrener_supervisor.escalation.policy import AlertStep, CompensateStep
from warrener_supervisor.escalation.policy_file import EscalationFile, ReloadOnSignal, parse

DECLINED = ErrorInfo(
    kind=ErrorKind.ERROR, type="bank.Declined", message="no", base_classes=("bank.Boom",), retryable=False
)
GOOD = """
[sink.ops]
apprise = "env:OPS_URL"

[[policy]]
name = "closed accounts"
job_types = ["bank.*"]
errors = "*.Closed"
steps = [{ do = "close" }]

[[policy]]
name = "lost agents"
kinds = "agent.*"
steps = [{ do = "alert", to = ["ops"] }]
"""


def wrong(text: str) -> list[str]:
    """What is told of this file."""
    with pytest.raises(SettingsError) as raised:
        parse(text, {})
    return list(raised.value.problems)


def steps(*written: str) -> str:
    return f'[[policy]]\nname = "a"\nsteps = [{", ".join(written)}]'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = !", "expected TOML, got a mistake: Invalid value (at line 1, column 5)"),
        (steps('{ do = "alrt" }'), "policy[0].steps[0].do: expected one of retry, park, alert"),
        (
            steps('{ do = "alert", to = ["oops"] }'),
            "policy[0].steps[0].to: expected one of the sinks log, got",
        ),
        (steps('{ do = "alert", titel = "x" }'), "policy[0].steps[0].titel: expected no such key"),
        (steps('{ do = "park", after = "1 moment" }'), "policy[0].steps[0].after: expected a duration"),
        (
            steps('{ do = "alert", text = "{{ jobtype }}" }'),
            "policy[0].steps[0].text: expected one of job_type, job_id",
        ),
        (
            steps('{ do = "alert", text = "{{ arguments.card }}" }'),
            "policy[0].steps[0].text: expected one of job_type, job_id",
        ),
        (
            steps('{ do = "alert", title = "{{ first_seen | upper }}" }'),
            "policy[0].steps[0].title: expected a format such as %Y-%m-%d",
        ),
        (
            steps('{ do = "compensate", job_type = "undo", arguments = { a = ["{{ order }}"] } }'),
            "policy[0].steps[0].arguments: expected one of job_type, job_id",
        ),
        (steps('{ do = "compensate" }'), "policy[0].steps[0].job_type: expected a value, got none"),
        (
            steps('{ do = "retry" }', '{ do = "retry" }'),
            "policy[0].steps[1]: expected retry once in a policy",
        ),
        (
            steps('{ do = "digest", into = "weekly" }'),
            "policy[0].steps[0].into: expected one of the digests daily",
        ),
        (steps('{ do = "park" }') + '\nquiet = "night"', "policy[0].quiet: expected one of the quiet hours"),
        ('[sink.a]\nlog = "error"\napprise = "x://"', "sink.a: expected one of apprise, webhook and log"),
        ('[sink.a]\nwebhook = "https://h"', "sink.a: expected webhook and secret together"),
        ('[sink.a]\nwebhook = "ftp://h"\nsecret = "s"', "sink.a.webhook: expected a URL like https://"),
        ('[sink.a]\napprise = "env:NONE"', "sink.a.apprise: expected the variable NONE to be set, got none"),
        ('[[quiet.n]]\nfrom = "22:00"\nto = "25:00"', "quiet.n[0].to: expected"),
        ('[digest.d]\nzone = "Mars/Crater"', "digest.d.zone: expected a time zone such as Europe/Berlin"),
    ],
)
def test_what_is_wrong_is_named_by_its_key(text: str, expected: str) -> None:
    (problem,) = wrong(text)
    assert problem.startswith(expected), problem


def test_all_that_is_wrong_is_reported_at_once() -> None:
    assert (
        len(wrong(steps('{ do = "alert", to = ["x"], text = "{{" }', '{ do = "digest", into = "y" }'))) == 3
    )


def test_the_first_policy_that_matches_follows_and_none_is_a_line_in_the_log() -> None:
    file = parse(GOOD, {"OPS_URL": "json://h"})
    assert file.sinks["ops"].apprise == "json://h"

    def name(**fields: Any) -> str:
        return policy_of(replace(incident(), **fields), file).name

    closed = {"error": {"type": "bank.Boom", "base_classes": ["bank.Closed"]}}
    assert name(sample=closed) == "closed accounts"
    assert name(sample={"error": {"type": "bank.Boom"}}) == "default"
    assert name(sample=closed, job_type="mail.send") == "default"
    assert name(kind="agent.lost", job_type=None) == "lost agents"


def test_each_name_that_is_accepted_has_a_value_in_a_dead_job() -> None:
    row = make(JobState.DEAD, error=DECLINED)
    found = replace(incident(), sample=sample_of(row) | {"text": "t", "since": "s", "schedule": "n"})
    for names, values in (
        (ALERT_NAMES, alert_values(found)),
        (COMPENSATION_NAMES, compensation_values(row, found)),
    ):
        for name in names.names:
            render(f"{{{{ {name.replace('*', 'path')} }}}}", values)
        for name in names.times:
            assert str(render(f"{{{{ {name} | %Y }}}}", values)).isdigit()


def test_an_alert_shows_what_is_missing_and_a_compensation_is_not_requested() -> None:
    row = make(JobState.DEAD, error=DECLINED)
    found = replace(incident(), sample=sample_of(row))
    step = AlertStep(
        do="alert",
        title="{{{{{{ times }}}} {{ error.type }}",
        text="{{ schedule }}, {{ error.base_classes }}",
    )
    alert = render_alert(found, step)
    assert (alert.title, alert.text) == ("{{1}} bank.Declined", '(no schedule), ["bank.Boom"]')
    undo = CompensateStep(do="compensate", job_type="undo", arguments={"order": "{{ arguments.order }}"})
    with pytest.raises(TemplateError, match=r"expected a value of arguments\.order, got none"):
        compensation_request(row, found, undo, row.requested_at)


def test_a_file_that_changes_is_read_again_and_a_bad_one_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "escalation.toml"
    with pytest.raises(
        SettingsError, match="WARRENER_SUPERVISOR_ESCALATION_FILE: expected a file that can be read"
    ):
        EscalationFile(path)
    path.write_text(steps('{ do = "park" }'))
    file = EscalationFile(path)

    def names_after(text: str, *, at: int) -> list[str]:
        path.write_text(text)
        os.utime(path, (at, at))
        return [policy.name for policy in file.current().policies]

    assert names_after(steps('{ do = "nothing" }'), at=1) == ["a"]
    assert names_after(steps('{ do = "close" }').replace('"a"', '"b"'), at=2) == ["b"]
    assert EscalationFile(None).current().policies == ()


async def test_a_hang_up_has_the_file_read_again_though_it_looks_as_before(tmp_path: Path) -> None:
    path = tmp_path / "escalation.toml"
    path.write_text(steps('{ do = "park" }'))
    os.utime(path, (1, 1))
    file = EscalationFile(path)
    read = asyncio.Event()

    def again() -> None:
        file.force_reload()
        read.set()

    hang_up = ReloadOnSignal(again)
    await hang_up.start()
    path.write_text(steps('{ do = "park" }').replace('"a"', '"b"'))
    os.utime(path, (1, 1))
    assert [policy.name for policy in file.current().policies] == ["a"]
    os.kill(os.getpid(), signal.SIGHUP)
    await read.wait()
    assert [policy.name for policy in file.current().policies] == ["b"]
    await hang_up.stop()
    await hang_up.stop()
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL


def test_a_hang_up_that_finds_a_mistake_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "escalation.toml"
    path.write_text(steps('{ do = "park" }'))
    file = EscalationFile(path)
    path.write_text(steps('{ do = "nothing" }'))
    file.force_reload()
    assert [policy.name for policy in file.current().policies] == ["a"]
    EscalationFile(None).force_reload()
