"""`warrener escalation test` lists every mistake of a file, each with its line, its key and the remedy."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from services.supervisor.tests.escalation.test_policy_file import GOOD, steps

from warrener_supervisor.escalation.__main__ import main
from warrener_supervisor.escalation.policy_checks import FileMistake, check_file
from warrener_supervisor.escalation.toml_lines import locate_keys

WRONG = """
[sink.ops]
apprise = "env:NOPE"
[sink.bad]
aprise = "x"
[sink.hook]
webhook = "ftp://h"
secret = "whsec_!!"

[quiet.night]
from = "22:00"
to = "25:00"

[digest.weekly]
to = ["opps"]

[[policy]]
name = "a"
quiet = "nite"
job_types = "bank.*"
steps = [
  { do = "alrt" },
  { do = "alert", to = ["oops"], titel = "x", text = "{{ jobtype }}" },
  { do = "compensate", arguments = { a = "{{ order }}" } },
  { do = "park", after = "1 moment" },
  { do = "close" },
  { do = "alert" },
]

[[policy]]
steps = []

[[policy]]
name = "a"
on_change = "ignore"
steps = [{ do = "digest", into = "monthly" }]
colour = 1
"""
PLACES = [
    (3, "sink.ops.apprise"),
    (5, "sink.bad.aprise"),
    (7, "sink.hook.webhook"),
    (8, "sink.hook.secret"),
    (12, "quiet.night[0].to"),
    (15, "digest.weekly.to"),
    (19, "policy[0].quiet"),
    (22, "policy[0].steps[0].do"),
    (23, "policy[0].steps[1].titel"),
    (23, "policy[0].steps[1].to"),
    (23, "policy[0].steps[1].text"),
    (24, "policy[0].steps[2].job_type"),
    (24, "policy[0].steps[2].arguments"),
    (25, "policy[0].steps[3].after"),
    (27, "policy[0].steps[5]"),
    (30, "policy[1].name"),
    (31, "policy[1].steps"),
    (33, "policy[2]"),
    (34, "policy[2].name"),
    (35, "policy[2].on_change"),
    (36, "policy[2].steps[0].into"),
    (37, "policy[2].colour"),
]


def mistakes_in(text: str) -> list[FileMistake]:
    return check_file(text, {})[1]


def test_a_mistake_hides_no_other() -> None:
    found = mistakes_in(WRONG)
    assert [(one.line, one.key) for one in found] == PLACES
    assert all(one.problem.startswith("expected ") for one in found)
    assert all(", got " in one.problem for one in found)
    assert all(one.remedy for one in found)


def test_each_is_one_line() -> None:
    (mistake,) = mistakes_in(steps('{ do = "alert", to = ["oops"] }'))
    assert str(mistake) == (
        "policy[0].steps[0].to: expected one of the sinks log, got 'oops' (line 3); "
        "declare it, or name another"
    )


def test_syntax_errors_of_several_tables_are_listed_with_what_is_wrong_in_the_others() -> None:
    text = WRONG.replace('name = "a"\nquiet', "name =\nquiet").replace("colour = 1", "colour = = 1")
    found = mistakes_in(text)
    assert [one.line for one in found if not one.key] == [18, 37]
    assert [one.key for one in found if one.key] == [
        "sink.bad.aprise",
        "quiet.night[0].to",
        "policy[1].name",
        "policy[1].steps",
    ], "no name counts as unknown: a table with a syntax error may declare it"


@pytest.mark.parametrize(
    "text", ["[[policy", "a = [1, 2", '[[policy]]\nname = """x', "= 1", "\n\n[x]\n[x]\n"]
)
def test_a_file_that_is_no_toml_has_a_mistake(text: str) -> None:
    problems = [one.problem for one in mistakes_in(text)]
    assert any(one.startswith("expected TOML, got a mistake: ") for one in problems), problems


@pytest.mark.parametrize(
    "text",
    [
        "policy = 1",
        "policy = [1]",
        'sink = "x"',
        "[sink]\na = 1",
        "[[policy]]\nsteps = 1",
        "quiet = [1]",
        "digest.a = 1",
    ],
)
def test_values_of_a_wrong_kind_are_mistakes(text: str) -> None:
    assert mistakes_in(text)


def test_what_can_never_have_an_effect_is_a_mistake() -> None:
    (mistake,) = mistakes_in(
        steps('{ do = "alert" }') + '\n[[policy]]\nname = "b"\nsteps = [{ do = "park" }]'
    )
    assert (mistake.key, mistake.remedy) == ("policy[1]", "put it before policy[0]")
    (mistake,) = mistakes_in(steps('{ do = "close" }', '{ do = "alert" }'))
    assert mistake.problem == "expected no step behind close, got alert"


def test_a_secret_in_the_wrong_place_is_not_shown() -> None:
    (mistake,) = mistakes_in('[sink.a]\nwebhook = "https://h"\nsecret = ["hunter2"]')
    assert "hunter2" not in str(mistake)


JUNK = st.sampled_from(
    [
        "",
        "[",
        "]",
        "{",
        "}",
        "=",
        ",",
        ".",
        "0",
        '"',
        "'",
        "\n",
        "[]",
        "{}",
        "true",
        "1.5",
        "[[policy]]\n",
        "a = 1\n",
    ]
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(WRONG)), st.integers(0, 12), JUNK), min_size=1, max_size=4))
def test_whatever_is_edited_the_file_has_contents_or_mistakes(edits: list[tuple[int, int, str]]) -> None:
    text = WRONG
    for place, length, junk in edits:
        text = text[:place] + junk + text[place + length :]
    escalation, mistakes = check_file(text, {"NOPE": "json://h"})
    assert mistakes or escalation is not None
    assert all(str(mistake) for mistake in mistakes)


@pytest.mark.parametrize("value", ["1", "true", '"x"', "[]", "[1]", "{}", "{ a = 1 }", '["x", 1]', "[{}]"])
@pytest.mark.parametrize(
    "key",
    [
        "sink",
        "quiet",
        "digest",
        "policy",
        "sink.a",
        "quiet.a",
        "digest.a",
        "sink.a.log",
        "quiet.a.to",
        "digest.a.to",
    ],
)
def test_a_value_of_any_kind_in_any_place_is_judged(key: str, value: str) -> None:
    escalation, mistakes = check_file(f"{key} = {value}", {})
    assert mistakes or escalation is not None


@pytest.mark.parametrize(
    "value", ["1", '"x"', "[]", "[1]", "{ a = 1 }", '["x", 1]', "[{}]", "[[{ do = 1 }]]"]
)
@pytest.mark.parametrize("key", ["name", "kinds", "quiet", "on_change", "steps"])
def test_a_value_of_any_kind_in_a_policy_is_judged(key: str, value: str) -> None:
    escalation, mistakes = check_file(f"[[policy]]\n{key} = {value}", {})
    assert mistakes, escalation


def test_lines_of_keys() -> None:
    text = """
a.b = 1 # [c]
"x.y" = '''
[no]
'''
[t]
k = [ # one
  { v = "[" },
  [1,
   2],
]
[[l.m]]
[[l.m]]
n = {o = 1, p = {q = 2}}
[[l.m.r]]
s = 1.5
"""
    lines = locate_keys(text)
    assert lines[("a", "b")] == 2
    assert lines[("x.y",)] == 3
    assert lines[("t",)] == 6
    assert lines[("t", "k", 0, "v")] == 8
    assert lines[("t", "k", 1, 1)] == 10
    assert lines[("l", "m", 1, "n", "p", "q")] == 14
    assert lines[("l", "m", 1, "r", 0, "s")] == 16


class TestCommand:
    def test_mistakes_are_lines_and_the_exit_code_is_2(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "escalation.toml"
        path.write_text(WRONG)
        assert main([str(path)]) == 2
        shown = capsys.readouterr()
        assert shown.out == ""
        assert len(shown.err.splitlines()) == len(PLACES)
        assert shown.err.splitlines()[1].startswith(f"{path}: sink.bad.aprise: expected no such key, got it")

    def test_mistakes_are_one_document(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = tmp_path / "escalation.toml"
        path.write_text(GOOD)
        assert main([str(path), "--json"]) == 2
        (mistake,) = json.loads(capsys.readouterr().out)["mistakes"]
        assert mistake == {
            "key": "sink.ops.apprise",
            "line": 3,
            "problem": "expected the variable OPS_URL to be set, got none",
            "remedy": "set it",
        }
        assert main([str(tmp_path / "nowhere.toml"), "--json"]) == 2
        (mistake,) = json.loads(capsys.readouterr().out)["mistakes"]
        assert "expected a file that can be read" in mistake["problem"]

    def test_a_good_file_is_played(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "escalation.toml"
        path.write_text(GOOD)
        monkeypatch.setenv("OPS_URL", "json://h")
        assert main([str(path), "--kind", "agent.lost"]) == 0
        assert "alert         to ops: agent.lost: the subject" in capsys.readouterr().out
