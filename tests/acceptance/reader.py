"""A reader of the pages: the files and the commands of a page, in a folder and two terminals."""

import re
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.acceptance.command_line import BARE, run_in
from tests.acceptance.warren import ROOT, until

from warrener_devservers import RabbitMQInstallation, ServerMissing

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*/*/README.md"))]


def blocks(page: Path, language: str) -> list[str]:
    """The blocks of a page in one language, in their order."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)


def programs(page: Path) -> dict[str, str]:
    """The Python of a page: each block is a file, and its first line has the file's name."""
    named = re.compile(r"# (\w+\.py)\b")
    found = [(named.match(block), block) for block in blocks(page, "python")]
    unnamed = [block for name, block in found if name is None]
    assert not unnamed, f"expected the name of a file in the first line, got {unnamed} in {page}"
    return {name[1]: block for name, block in found if name is not None}


def write_files(folder: Path, files: dict[str, str]) -> None:
    """Write the files of a page. Skips the test where no broker can be started for the reader."""
    try:
        RabbitMQInstallation.of_this_machine()
    except ServerMissing as missing:
        pytest.skip(str(missing))
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


@contextmanager
def terminal(folder: Path, command: str) -> Generator[Path]:
    """The command `warrener up` in a terminal of its own, once it is ready; Ctrl-C ends it if it still runs.

    Yields the file with its output.
    """
    shown = folder / "terminal.txt"
    with shown.open("w") as output:
        words = re.sub(r"\s+#.*", "", command).split()
        up = subprocess.Popen(words, cwd=folder, env=BARE, stdout=output, stderr=subprocess.STDOUT)
        try:
            until(lambda: up.poll() is not None or "is ready" in shown.read_text(), "up", within=300)
            assert up.poll() is None, shown.read_text()
            yield shown
            up.send_signal(signal.SIGINT)
            assert up.wait(90) in (0, -signal.SIGKILL), shown.read_text()
        finally:
            up.kill()
            up.wait(30)


def run(folder: Path, command: str) -> str:
    """The answer of a command, in the reader's folder, with the venv on the path."""
    return run_both(folder, command)[0]


def run_both(folder: Path, command: str) -> tuple[str, str]:
    """The answer of a command, and its messages."""
    done = run_in(folder, "sh", "-c", command)
    assert done.returncode == 0, f"{command}:\n{done.stdout}\n{done.stderr}"
    return done.stdout.strip(), done.stderr
