"""The agent as a process: its targets, and the errors of its start."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from warrener_agent.__main__ import AgentNotFound, load_agents

WAIT = 60
MODULE = """
from warrener_agent import Agent

agent = Agent()
second = Agent()

@agent.job("greet")
async def greet(name: str) -> str:
    return f"Hello, {name}!"

@second.job("wait")
async def wait() -> None: ...
"""


@asynccontextmanager
async def agent(folder: Path, *words: str, **variables: str) -> AsyncGenerator[asyncio.subprocess.Process]:
    """`python -m warrener_agent WORDS` in `folder`."""
    folder.joinpath("shop_jobs.py").write_text(MODULE)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("WARRENER_")}
    overrides = {"WARRENER_LEDGER_URL": "sqlite:///ledger.db", **variables}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "warrener_agent",
        *words,
        cwd=folder,
        env={**inherited, **overrides},
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def startup_error(folder: Path, *words: str, **variables: str) -> str:
    async with agent(folder, *words, **variables) as process, asyncio.timeout(WAIT):
        _, output = await process.communicate()
    assert process.returncode == 2, output.decode()
    return output.decode()


async def test_the_error_names_what_is_missing(tmp_path: Path) -> None:
    assert "expected a module nowhere, found none" in await startup_error(tmp_path, "nowhere")
    assert "got none" in await startup_error(tmp_path)


@pytest.mark.parametrize(
    ("code", "output"),
    [
        ("import not_installed_at_all", "got ModuleNotFoundError: No module named 'not_installed_at_all' ("),
        ("def broken(:", "got SyntaxError: "),
        ("1 / 0", "got ZeroDivisionError: division by zero ("),
    ],
)
async def test_a_module_that_cannot_be_imported_ends_the_agent_with_one_sentence(
    tmp_path: Path, code: str, output: str
) -> None:
    (tmp_path / "broken_jobs.py").write_text(f"# handlers\n{code}\n")
    error = await startup_error(tmp_path, "broken_jobs")
    assert f"expected broken_jobs to be imported, {output}" in error
    assert "broken_jobs.py, line 2)" in error
    assert "Traceback" not in error


async def test_the_error_names_the_wrong_setting(tmp_path: Path) -> None:
    output = await startup_error(tmp_path, "shop_jobs", WARRENER_AGENT_SLOTS="many")
    assert "WARRENER_AGENT_SLOTS" in output
    output = await startup_error(tmp_path, "shop_jobs", WARRENER_LEDGER_URL="mysql://x")
    assert "WARRENER_LEDGER_URL" in output
    assert "Traceback" not in output


@pytest.mark.parametrize(
    ("target", "output"),
    [
        ("no_such_module_here", "found none; neither"),
        ("shop/jobs.py", "named with dots: shop.jobs"),
        ("json", "expected an Agent in module json, found none"),
        ("warrener_agent.testing:run", "expected an Agent as warrener_agent.testing:run"),
    ],
)
def test_a_target_that_is_not_there_is_explained(target: str, output: str) -> None:
    with pytest.raises(AgentNotFound, match=output):
        load_agents([target])


@pytest.mark.parametrize(
    ("target", "served"), [("shop_jobs", {"greet", "wait"}), ("shop_jobs:second", {"wait"})]
)
def test_a_target_is_all_agents_of_a_module_or_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, served: set[str]
) -> None:
    tmp_path.joinpath("shop_jobs.py").write_text(MODULE)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert load_agents([target]).definitions.keys() == served
