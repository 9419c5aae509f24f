"""The tutorial, from an empty folder to its end: each command as printed, each answer as shown."""

import re
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.acceptance.command_line import run_in
from tests.acceptance.reader import programs, terminal, write_files
from tests.acceptance.warren import ROOT, until

PAGE = ROOT / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```(sh|console)\n(.*?)^```", re.DOTALL | re.MULTILINE)
LOOKS = ("warrener job ", "warrener explain", "warrener schedule show", "warrener dead-letters")
"""The beginnings of commands that change nothing: a reader repeats them until the page is right."""


@pytest.mark.timeout(900)
def test_the_tutorial_as_printed(tmp_path: Path) -> None:
    folder = tmp_path / "parcels"
    first, *steps = BLOCK.findall(PAGE.read_text("utf-8"))
    assert run_in(tmp_path, "sh", "-c", first[1]).returncode == 0
    write_files(folder, programs(PAGE))
    with ExitStack() as terminals:
        for language, block in steps:
            if language == "console":
                for command, answer in dialogue(block):
                    converse(folder, command, answer)
            elif block.startswith("warrener up"):
                terminals.enter_context(terminal(folder, block))
            else:  # kills it
                assert run_in(folder, "sh", "-c", block).returncode == 0
                terminals.close()
        [console] = re.findall(r"http://127\.0\.0\.1:\d+", (folder / "terminal.txt").read_text())
        with urllib.request.urlopen(f"{console}/jobs/night-shift", timeout=30) as page:
            assert "parcels.sort" in page.read().decode()


def dialogue(block: str) -> Iterator[tuple[str, str]]:
    """The commands of a block, each with the answer below it."""
    for part in block.removeprefix("$ ").split("\n$ "):
        command, _, answer = part.partition("\n")
        yield command, answer


def converse(folder: Path, command: str, answer: str) -> None:
    """Run a command; its answer fits the page, at once or, if it only looks, some time later."""
    fits = re.compile(".*".join(map(re.escape, plain(answer).split("…"))), re.DOTALL)
    looks = command.startswith(LOOKS) and " redrive " not in command
    replies: list[str] = []

    def answered() -> bool:
        done = run_in(folder, "env", "COLUMNS=120", "sh", "-c", f"exec 2>&1\n{command}")
        replies.append(done.stdout)
        return done.returncode == 0 and fits.search(plain(replies[-1])) is not None

    try:
        until(answered, "the answer of the page", within=120 if looks else 0)
    except AssertionError:
        pytest.fail(f"expected of {command}:\n{answer}\ngot:\n{replies[-1]}")


def plain(text: str) -> str:
    """A text without the widths of columns."""
    return "\n".join(" ".join(line.split()) for line in text.strip().splitlines())
