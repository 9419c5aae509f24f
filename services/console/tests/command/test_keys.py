"""`warrener keys` in a terminal: what it refuses, and what it leaves as it was."""

from pathlib import Path

import pytest
from services.console.tests.conftest import Run


def test_a_key_makes_the_folder_of_its_file(run: Run, here: Path) -> None:
    assert run("keys", "2026-11", "--file", "secrets/keys.toml").exit_code == 0
    assert (here / "secrets/keys.toml").stat().st_mode & 0o777 == 0o600
    assert (here / "secrets/keys.toml").read_text().startswith('2026-11 = "')


def test_a_file_keeps_its_mode_and_its_keys(run: Run, here: Path) -> None:
    (here / "keys.toml").write_text('old = "a2V5"')
    (here / "keys.toml").chmod(0o640)
    assert run("keys", "new", "--file", "keys.toml").exit_code == 0
    assert (here / "keys.toml").stat().st_mode & 0o777 == 0o640
    assert (here / "keys.toml").read_text().startswith('old = "a2V5"\nnew = "')


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[billing]\npublic = "a2V5"\n', "which is none"),
        ("secret = 'of nobody", "which is none"),
        ('billing = "a2V5"\n', "expected a name that keys.toml has not"),
    ],
)
def test_a_file_that_can_get_no_such_key_stays_as_it_is(run: Run, here: Path, text: str, words: str) -> None:
    (here / "keys.toml").write_text(text)
    result = run("keys", "billing", "--file", "keys.toml")
    assert (result.exit_code, words in result.stderr, "a2V5" in result.stderr) == (2, True, False)
    assert (here / "keys.toml").read_text() == text


def test_a_key_that_cannot_be_written_is_no_key(run: Run, here: Path) -> None:
    (here / "file").touch()
    result = run("keys", "2026-11", "--file", "file/keys.toml")
    assert result.exit_code == 1
    assert "expected to write the key to file/keys.toml" in result.stderr


def test_job_types_are_those_of_a_signing_key(run: Run, here: Path) -> None:
    result = run("keys", "2026-11", "--job-type", "bills.*", "--file", "keys.toml")
    assert (result.exit_code, "add --signing" in result.stderr) == (2, True)
    assert not (here / "keys.toml").exists()
