"""The escalation file: what it may say, and how it is told what is wrong with it."""

import asyncio
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from services.supervisor.tests.test_escalation_decisions import incident

from warrener_runtime.settings import SettingsError
from warrener_supervisor.escalation.decisions import policy_of
from warrener_supervisor.escalation.policy_file import EscalationFile, ReloadOnSignal, parse
from warrener_supervisor.escalation.templates import NothingThere, filled, filled_text

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
        (steps('{ do = "alert", text = "{jobtype }" }'), "policy[0].steps[0].text: expected places such as"),
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
    assert len(wrong(steps('{ do = "alert", to = ["x"], text = "{" }', '{ do = "digest", into = "y" }'))) == 3


def test_the_first_policy_that_matches_follows_and_none_is_a_line_in_the_log() -> None:
    file = parse(GOOD, {"OPS_URL": "json://h"})
    assert file.sinks["ops"].apprise == "json://h"

    def name(**fields: Any) -> str:
        return policy_of(replace(incident(), **fields), file).name

    closed = {"error": {"type": "bank.Boom", "bases": ["bank.Closed"]}}
    assert name(sample=closed) == "closed accounts"
    assert name(sample={"error": {"type": "bank.Boom"}}) == "default"
    assert name(sample=closed, job_type="mail.send") == "default"
    assert name(kind="agent.lost", job_type=None) == "lost agents"


def test_templates_for_people_and_for_machines() -> None:
    facts = {"times": 3, "error": {"type": "Boom"}, "arguments": {"order": 17, "lines": [1, None]}}
    assert filled_text("{{{times}}} {error.type} {nothing.here}", facts) == "{3} Boom {nothing.here?}"
    template = {"order": "{arguments.order}", "why": ["{error.type}: {arguments.lines}", 1], "{times}": None}
    assert filled(template, facts) == {"order": 17, "why": ["Boom: [1, null]", 1], "{times}": None}
    with pytest.raises(NothingThere, match=r"expected \{arguments.oder\} in the dead job"):
        filled("{arguments.oder}", facts)


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
