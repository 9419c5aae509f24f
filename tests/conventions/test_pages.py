"""Pages name only files, settings, commands, options and links that exist."""

import ast
import json
import os
import re
import shlex
import tomllib
from collections.abc import Iterator
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pydantic import ByteSize, TypeAdapter
from tests.conventions import console_access_page, settings_page
from tests.conventions.sources import PACKAGES, ROOT, TESTS, modules, pages, tree
from typer.main import get_command

from warrener.command.app import app
from warrener.settings import CommandSettings
from warrener.web.settings import ConsoleSettings
from warrener_agent.settings import AgentSettings
from warrener_contracts.fields import parse_duration
from warrener_runtime.secret_files import may_hold_secret
from warrener_scheduler.settings import SchedulerSettings
from warrener_supervisor.settings import SupervisorSettings

PAGES = [
    ROOT / "CONTRIBUTING.md",
    *(page for page in pages() if "decisions" not in page.parts),
    *sorted(ROOT.glob("*/*/README.md")),
]
FIRST = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "client/README.md")),
    *(ROOT / "docs" / name for name in ("glossary.md", "explanation/architecture.md")),
    *sorted(ROOT.glob("*/*/README.md")),
]
FIELDS = {
    f"WARRENER_{name.upper()}": field
    for kind in (AgentSettings, SchedulerSettings, SupervisorSettings, CommandSettings, ConsoleSettings)
    for name, field in kind.model_fields.items()
}
"""The settings by their variables."""
SPAN = re.compile(r"`([^`\n]+)`")
BLOCK = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
NAME = re.compile(r"\b(?:[a-z]+(?:_[a-z]+)+|[A-Z][a-z]+(?:[A-Z][a-z]+)+)\b")
FILE = re.compile(r"[\w./-]*\w\.(?:py|sql|toml|yml|md)|[a-z][\w-]*/")
TOP = ("client/", "contracts/", "docs/", "examples/", "infra/", "services/", "tests/", "tools/")
WRITTEN = frozenset(
    {"warrener.toml", "escalation.toml", "schedules.toml", "results.md", "FILE.py", "FILE.toml"}
)
"""Files that users or the build write, beside those that are a block of their page."""


def relative(page: Path) -> str:
    return str(page.relative_to(ROOT))


def spans(page: Path) -> list[str]:
    return SPAN.findall(BLOCK.sub("", page.read_text(encoding="utf-8")))


def blocks(page: Path, language: str = r"\w*") -> list[str]:
    block = re.compile(rf"^```{language}\n(.*?)^```", re.MULTILINE | re.DOTALL)
    return block.findall(page.read_text(encoding="utf-8"))


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
    known = {*WRITTEN, *re.findall(r"^# (\w+\.py)\b", page.read_text(encoding="utf-8"), re.MULTILINE)}
    for span in spans(page):
        if (FILE.fullmatch(span) or span.startswith(TOP)) and span not in known and "*" not in span:
            yield span


@cache
def sources() -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in modules([*PACKAGES, *TESTS]))


def commands(page: Path) -> Iterator[list[str]]:
    lines = [line for block in blocks(page) for line in block.replace("\\\n", " ").split("\n")]
    for text in (*spans(page), *lines):
        if match := re.match(r"\s*(?:\$ )?(?:WARRENER_\S+ )*warrener( .*|$)", text):
            yield shlex.split(match[1], comments=True)


def unknown_words(words: list[str]) -> list[str]:
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


@pytest.mark.parametrize("made", [settings_page, console_access_page], ids=lambda made: made.PAGE.stem)
def test_a_generated_page_is_up_to_date(made: Any) -> None:
    assert made.PAGE.read_text("utf-8") == made.page_text(), f"run `python -m {made.__name__}`"


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_a_page_names_settings_that_exist(page: Path) -> None:
    named = set(re.findall(r"\bWARRENER_[A-Z_]*[A-Z]\b", page.read_text(encoding="utf-8")))
    files = {f"{name}_FILE" for name in FIELDS if may_hold_secret(name)}
    unknown = sorted(name for name in named - FIELDS.keys() - files if f'"{name}"' not in sources())
    assert not unknown, f"expected settings of a service, got {unknown}"


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_a_page_names_files_that_exist(page: Path) -> None:
    unknown = sorted(name for name in named_files(page) if name.rstrip("/") not in paths())
    assert not unknown, f"expected files of the repository, got {unknown}"


@pytest.mark.parametrize("page", FIRST, ids=relative)
def test_a_page_that_a_stranger_reads_first_names_code_that_exists(page: Path) -> None:
    named = {name for span in spans(page) if not FILE.fullmatch(span) for name in NAME.findall(span)}
    unknown = sorted(name for name in named if name not in sources())
    assert not unknown, f"expected names of the code, got {unknown}"


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


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_the_data_of_a_page_can_be_read(page: Path) -> None:
    for block in blocks(page, "toml"):
        assert tomllib.loads(block)
    for block in blocks(page, "json"):
        rest = block.strip()
        while rest:  # one value or several
            _, end = json.JSONDecoder().raw_decode(rest)
            rest = rest[end:].strip()


HELP = sorted((ROOT / "services" / "console" / "src" / "warrener" / "command").glob("*.py"))


def help_examples(module: Path) -> Iterator[str]:
    """Yield the lines of the examples at the end of each docstring."""
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.FunctionDef | ast.Module):
            _, begin, examples = (ast.get_docstring(node) or "").partition("\n\n$ ")
            yield from f"$ {examples}".splitlines() if begin else ()


@pytest.mark.parametrize("module", HELP, ids=relative)
def test_examples_of_a_help_text_are_commands_of_one_line(module: Path) -> None:
    wrong: list[str] = []
    for line in help_examples(module):
        match = re.fullmatch(r"\$ (?:WARRENER_\S+ )*warrener((?: [^$]*)?)", line)
        words = shlex.split(match[1].split(" | ")[0]) if match else []
        if match is None or unknown_words(words):
            wrong.append(line)
    assert not wrong, f"expected commands and options that exist, one in a line, got {wrong}"


DEFAULTS = {
    name: field.default
    for name, field in FIELDS.items()
    if isinstance(field.default, int | float | timedelta)
}
STATED = re.compile(r"\d+(?:\.\d+)? ?(?:[KMG]iB|s|m|min|h|d)?")


def stated_defaults(page: Path) -> Iterator[tuple[str, str]]:
    """Yield each setting of a table with a column `default`, and the default that its row states."""
    for table in re.findall(r"(?:^\|.*\n)+", page.read_text(encoding="utf-8"), re.MULTILINE):
        header, *rows = (
            [cell.strip() for cell in line.strip("|\n").split(" | ")] for line in table.splitlines()
        )
        if "default" not in header:
            continue
        for row in rows:
            names = re.findall(r"`(WARRENER_\w+)`", row[0])
            values = STATED.findall(row[header.index("default")]) if names else []
            yield from zip(names, values, strict=False)


def as_number(value: float | timedelta) -> float:
    return value.total_seconds() if isinstance(value, timedelta) else float(value)


def read_stated(text: str) -> float:
    """Read a default as pages write it: `64 KiB`, or `5 min` in seconds."""
    if text.endswith("iB"):
        return float(TypeAdapter[int](ByteSize).validate_python(text.replace(" ", "")))
    return as_number(parse_duration(re.sub(r" ?min", "m", text).replace(" ", "")))


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_a_table_states_the_defaults_of_the_settings(page: Path) -> None:
    wrong = [
        f"{name}: {stated}, not {DEFAULTS[name]}"
        for name, stated in stated_defaults(page)
        if name in DEFAULTS and read_stated(stated) != as_number(DEFAULTS[name])
    ]
    assert not wrong, f"expected the defaults of the code, got {wrong}"


def test_defaults_are_compared() -> None:
    assert len([name for page in PAGES for name, _ in stated_defaults(page) if name in DEFAULTS]) > 20


def test_a_command_that_does_not_exist_is_found() -> None:
    assert unknown_words(["schedule", "put", "x", "--cron", "* * * * *", "--no-such"]) == ["--no-such"]
    assert unknown_words(["scheduled", "list"]) == ["scheduled"]
