"""Pages name only files, settings, commands, options and links that exist."""

import os
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.conventions.sources import PACKAGES, ROOT, TESTS, modules, pages
from typer.main import get_command

from warrener.command.app import app
from warrener.context import CommandSettings
from warrener_agent.settings import AgentSettings
from warrener_scheduler.settings import SchedulerSettings
from warrener_supervisor.settings import SupervisorSettings

PAGES = [
    ROOT / "CONTRIBUTING.md",
    *(page for page in pages() if "decisions" not in page.parts),
    *sorted(ROOT.glob("*/*/README.md")),
]
SETTINGS = {
    f"WARRENER_{name.upper()}"
    for kind in (AgentSettings, SchedulerSettings, SupervisorSettings, CommandSettings)
    for name in kind.model_fields
}
SPAN = re.compile(r"`([^`\n]+)`")
BLOCK = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
FILE = re.compile(r"[\w./-]*\w\.(?:py|sql|toml|yml|md)|[a-z][\w-]*/")
TOP = ("contracts/", "docs/", "examples/", "infra/", "services/", "tests/")
WRITTEN = frozenset(
    {"warrener.toml", "escalation.toml", "schedules.toml", "results.md", "FILE.py", "FILE.toml"}
)
"""Files that users or the build write."""


def relative(page: Path) -> str:
    return str(page.relative_to(ROOT))


def spans(page: Path) -> list[str]:
    return SPAN.findall(BLOCK.sub("", page.read_text(encoding="utf-8")))


def blocks(page: Path) -> list[str]:
    return BLOCK.findall(page.read_text(encoding="utf-8"))


@cache
def paths() -> frozenset[str]:
    """Every tail of every path of a file or folder in the repository."""
    found: set[str] = set()
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in {".git", ".venv", "build", "__pycache__"}]
        parts = Path(folder).relative_to(ROOT).parts
        for name in (*folders, *files):
            whole = (*parts, name)
            found.update("/".join(whole[start:]) for start in range(len(whole)))
    return frozenset(found)


def named_files(page: Path) -> Iterator[str]:
    for span in spans(page):
        if (FILE.fullmatch(span) or span.startswith(TOP)) and span not in WRITTEN and "*" not in span:
            yield span


@cache
def sources() -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in modules([*PACKAGES, *TESTS]))


def commands(page: Path) -> Iterator[list[str]]:
    """The words of each `warrener …` command of a page."""
    lines = [line for block in blocks(page) for line in block.replace("\\\n", " ").split("\n")]
    for text in (*spans(page), *lines):
        if match := re.match(r"\s*(?:\$ )?(?:WARRENER_\S+ )*warrener( .*|$)", text):
            yield shlex.split(match[1], comments=True)


def unknown_words(words: list[str]) -> list[str]:
    """The commands and options among `words` that the command does not have."""
    command: Any = get_command(app)  # typer has a click of its own
    unknown: list[str] = []
    for word in words:
        if word in {"|", ">", "&&", ";"} or command.context_settings.get("ignore_unknown_options"):
            break  # the words after it are another program's
        if word.startswith("-") and not re.match(r"-\d", word) and word != "-":
            options = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
            if word.partition("=")[0] not in options | {"-h", "--help"}:
                unknown.append(word)
        elif hasattr(command, "commands") and re.fullmatch(r"[a-z][a-z-]*", word):
            inner = command.commands.get(word)
            if inner is None:
                unknown.append(word)
                break
            command = inner
    return unknown


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_a_page_names_settings_that_exist(page: Path) -> None:
    named = set(re.findall(r"\bWARRENER_[A-Z_]*[A-Z]\b", page.read_text(encoding="utf-8")))
    unknown = sorted(name for name in named - SETTINGS if f'"{name}"' not in sources())
    assert not unknown, f"expected settings of a service, got {unknown}"


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_a_page_names_files_that_exist(page: Path) -> None:
    unknown = sorted(name for name in named_files(page) if name.rstrip("/") not in paths())
    assert not unknown, f"expected files of the repository, got {unknown}"


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_a_page_names_commands_and_options_that_exist(page: Path) -> None:
    unknown = [(" ".join(words), missing) for words in commands(page) if (missing := unknown_words(words))]
    assert not unknown, f"expected commands and options that `warrener --help` lists, got {unknown}"


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    broken: list[str] = []
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        target, _, anchor = link.partition("#")
        if re.match(r"\w+:", target):
            continue
        path = (page.parent / target).resolve() if target else page
        if not path.exists() or (anchor and anchor not in anchors(path)):
            broken.append(link)
    assert not broken, f"expected links to files and headings, got {broken}"


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_a_command_that_does_not_exist_is_found() -> None:
    assert unknown_words(["schedule", "put", "x", "--cron", "* * * * *", "--no-such"]) == ["--no-such"]
    assert unknown_words(["scheduled", "list"]) == ["scheduled"]
