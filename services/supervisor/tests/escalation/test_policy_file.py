"""The escalation file: its contents, its first mistake, and reading it again."""

import asyncio
import contextlib
import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from services.supervisor.tests.escalation.test_decisions import incident
from services.supervisor.tests.stage import NOW, make

from warrener_contracts.events import ErrorInfo, ErrorKind
from warrener_contracts.state_machine import JobState
from warrener_contracts.templates import TemplateError, render
from warrener_runtime.settings import SettingsError
from warrener_supervisor.escalation import facts, policy_file
from warrener_supervisor.escalation.__main__ import main
from warrener_supervisor.escalation.alerts import render_alert
from warrener_supervisor.escalation.job_steps import compensation_request
from warrener_supervisor.escalation.policy import AlertStep, CompensateStep
from warrener_supervisor.escalation.policy_versions import LoadedEscalation

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


PARK, RETRY, CLOSE = '{ do = "park" }', '{ do = "retry" }', '{ do = "close" }'
HOOK = '[sink.a]\nwebhook = "https://h"\n'


def steps(*written: str) -> str:
    return f'[[policy]]\nname = "a"\nsteps = [{", ".join(written)}]'


UNKNOWN = "expected one of job_type, job_id"
STEP_MISTAKES = {
    '{ do = "alrt" }': ".do: expected one of retry, park, alert",
    '{ do = "alert", to = ["oops"] }': ".to: expected one of the sinks log, got",
    '{ do = "alert", titel = "x" }': ".titel: expected no such key",
    '{ do = "park", after = "1 moment" }': ".after: expected a duration",
    '{ do = "alert", text = "{{ arguments.card }}" }': ".text: expected one of job_type, job_id",
    '{ do = "alert", title = "{{ first_seen | upper }}" }': ".title: expected a format such as %Y-%m-%d",
    '{ do = "compensate", job_type = "undo", arguments = { a = ["{{ order }}"] } }': f".arguments: {UNKNOWN}",
    '{ do = "compensate" }': ".job_type: expected a value, got none",
    '{ do = "digest", into = "weekly" }': ".into: expected one of the digests daily",
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((steps(step), f"policy[0].steps[0]{expected}") for step, expected in STEP_MISTAKES.items()),
        ("a = !", "expected TOML, got a mistake: Invalid value (at line 1, column 5)"),
        (steps(RETRY, RETRY), "policy[0].steps[1]: expected retry once in a policy"),
        (steps(PARK) + '\nquiet = "night"', "policy[0].quiet: expected one of the quiet hours"),
        ('[sink.a]\nlog = "error"\napprise = "x://"', "sink.a: expected one of apprise, webhook and log"),
        ('[sink.a]\nwebhook = "https://h"', "sink.a: expected webhook and secret together"),
        ('[sink.a]\nwebhook = "ftp://h"\nsecret = "s"', "sink.a.webhook: expected a URL like https://"),
        (f'{HOOK}secret = "whsec_!"', "sink.a.secret: expected base64 behind whsec_"),
        ('[sink.a]\napprise = "env:NONE"', "sink.a.apprise: expected the variable NONE to be set, got none"),
        ('[[quiet.n]]\nfrom = "22:00"\nto = "25:00"', "quiet.n[0].to: expected"),
        ('[digest.d]\nzone = "Mars/Crater"', "digest.d.zone: expected a time zone such as Europe/Berlin"),
        ('[digest.d]\nto = ["opps"]', "digest.d.to: expected one of the sinks log, got 'opps'; declare it"),
        (steps(), "policy[0].steps: expected at least one element, got none; add one"),
        (steps(CLOSE, PARK), "policy[0].steps[1]: expected no step behind close"),
        (f"{steps(PARK)}\n{steps(PARK)}", "policy[1].name: expected a name of its own, got 'a' again"),
        (
            steps(PARK) + "\n" + steps(PARK).replace('"a"', '"b"'),
            "policy[1]: expected a policy that can match, got one behind policy[0], which matches every "
            "incident; put it before policy[0]",
        ),
    ],
)
def test_the_first_mistake_is_named_by_its_key(text: str, expected: str) -> None:
    with pytest.raises(policy_file.PolicyFileError) as raised:
        policy_file.check_file(text, {})
    assert str(raised.value).startswith(expected)
    assert raised.value.remedy


def test_a_secret_in_the_wrong_place_is_not_shown() -> None:
    with pytest.raises(policy_file.PolicyFileError) as raised:
        policy_file.check_file(f'{HOOK}secret = ["hunter2"]', {})
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize("value", ["1", "true", '"x"', "[]", "[1]", "{}", "{ a = 1 }", '["x", 1]', "[{}]"])
@pytest.mark.parametrize("key", ["sink", "quiet", "digest", "policy", "sink.a", "quiet.a", "digest.a.to"])
def test_a_value_of_any_kind_in_any_place_is_judged(key: str, value: str) -> None:
    with contextlib.suppress(policy_file.PolicyFileError):
        policy_file.check_file(f"{key} = {value}", {})


JUNK = st.sampled_from(["", "[", "]", "{", "}", "=", ",", ".", "0", '"', "\n", "{}", "true", "[[policy]]\n"])


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(GOOD)), st.integers(0, 12), JUNK), min_size=1, max_size=4))
def test_an_edited_file_has_contents_or_a_mistake(edits: list[tuple[int, int, str]]) -> None:
    text = GOOD
    for place, length, junk in edits:
        text = text[:place] + junk + text[place + length :]
    with contextlib.suppress(policy_file.PolicyFileError):
        policy_file.check_file(text, {"OPS_URL": "json://h"})


def test_the_first_policy_that_matches_follows_and_none_is_a_line_in_the_log() -> None:
    file = policy_file.check_file(GOOD, {"OPS_URL": "json://h"})
    assert file.sinks["ops"].apprise == "json://h"

    def name(**fields: Any) -> str:
        return LoadedEscalation.of(file, NOW).current(replace(incident(), **fields)).policy.name

    closed = {"error": {"type": "bank.Boom", "base_classes": ["bank.Closed"]}}
    assert name(sample=closed) == "closed accounts"
    assert name(sample={"error": {"type": "bank.Boom"}}) == "default"
    assert name(sample=closed, job_type="mail.send") == "default"
    assert name(kind="agent.lost", job_type=None) == "lost agents"


def test_each_name_that_is_accepted_has_a_value_in_a_dead_job() -> None:
    row = make(JobState.DEAD, error=DECLINED)
    found = replace(incident(), sample=facts.sample_of(row) | {"text": "t", "since": "s", "schedule": "n"})
    for names, values in (
        (facts.ALERT_NAMES, facts.alert_values(found)),
        (facts.COMPENSATION_NAMES, facts.compensation_values(row, found)),
    ):
        for name in names.names:
            render(f"{{{{ {name.replace('*', 'path')} }}}}", values)
        for name in names.times:
            assert str(render(f"{{{{ {name} | %Y }}}}", values)).isdigit()


def test_an_alert_shows_what_is_missing_and_a_compensation_is_not_requested() -> None:
    row = make(JobState.DEAD, error=DECLINED)
    found = replace(incident(), sample=facts.sample_of(row))
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
    sentence = "WARRENER_SUPERVISOR_ESCALATION_FILE: expected a file that can be read"
    with pytest.raises(SettingsError, match=sentence):
        policy_file.EscalationFile(path)
    path.write_text(steps(PARK))
    file = policy_file.EscalationFile(path)

    def names_after(text: str, *, at: int) -> list[str]:
        path.write_text(text)
        os.utime(path, (at, at))
        return [policy.name for policy in file.current().policies]

    assert names_after(steps('{ do = "nothing" }'), at=1) == ["a"]
    file.force_reload()  # as by a hang-up
    assert [policy.name for policy in file.current().policies] == ["a"]
    assert names_after(steps(CLOSE).replace('"a"', '"b"'), at=2) == ["b"]
    nothing = policy_file.EscalationFile(None)
    nothing.force_reload()
    assert nothing.current().policies == ()


async def test_a_hang_up_has_the_file_read_again_though_it_looks_as_before(tmp_path: Path) -> None:
    path = tmp_path / "escalation.toml"
    path.write_text(steps(PARK))
    os.utime(path, (1, 1))
    file = policy_file.EscalationFile(path)
    read = asyncio.Event()

    def again() -> None:
        file.force_reload()
        read.set()

    hang_up = policy_file.ReloadOnSignal(again)
    await hang_up.start()
    path.write_text(steps(PARK).replace('"a"', '"b"'))
    os.utime(path, (1, 1))
    assert [policy.name for policy in file.current().policies] == ["a"]
    os.kill(os.getpid(), signal.SIGHUP)
    await read.wait()
    assert [policy.name for policy in file.current().policies] == ["b"]
    await hang_up.stop()
    await hang_up.stop()
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL


class TestCommand:
    def test_the_mistake_is_a_line_or_a_document_and_the_exit_code_is_2(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "escalation.toml"
        path.write_text(GOOD)
        assert main([str(path)]) == 2
        shown = capsys.readouterr()
        sentence = "sink.ops.apprise: expected the variable OPS_URL to be set, got none; set it"
        assert (shown.out, shown.err) == ("", f"{path}: {sentence}\n")
        assert main([str(path), "--json"]) == 2
        key, problem, remedy = sentence.replace("; ", ": ").split(": ")
        assert json.loads(capsys.readouterr().out) == {
            "mistake": {"key": key, "problem": problem, "remedy": remedy}
        }
        assert main([str(tmp_path / "nowhere.toml")]) == 2
        assert "expected a file that can be read" in capsys.readouterr().err

    def test_a_good_file_is_played(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "escalation.toml"
        path.write_text(GOOD)
        monkeypatch.setenv("OPS_URL", "json://h")
        assert main([str(path), "--kind", "agent.lost"]) == 0
        assert "alert         to ops: agent.lost: the subject" in capsys.readouterr().out
