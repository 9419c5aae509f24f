"""The start of an agent: its targets, its settings, its identity, and the version of its code."""

import asyncio
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from warrener_agent.__main__ import AgentNotFound, load_agents
from warrener_agent.identity import acquire_identity, default_identity_folder, find_code_version
from warrener_agent.ledger import open_ledger
from warrener_agent.settings import AgentSettings
from warrener_runtime.clock import SystemEntropy
from warrener_runtime.settings import SettingsError, load

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
BROKEN = "expected shop_jobs to be imported, got "


@pytest.mark.parametrize(
    ("code", "variables", "found"),
    [
        (MODULE, {"WARRENER_AGENT_SLOTS": "many"}, "WARRENER_AGENT_SLOTS"),
        (MODULE, {"WARRENER_LEDGER_URL": "mysql://x"}, "WARRENER_LEDGER_URL"),
        ("\nimport not_here", {}, f"{BROKEN}ModuleNotFoundError: No module named 'not_here' \\(.*, line 2"),
        ("\ndef broken(:", {}, f"{BROKEN}SyntaxError: .*shop_jobs.py, line 2"),
        (
            f"{MODULE}\n@agent.job('a.b')\nasync def broken(order) -> None: ...",
            {},
            f"{BROKEN}JobDefinitionError: a.b: expected a type .*shop_jobs.py, line [1-9]",
        ),
        ("\n1 / 0", {}, f"{BROKEN}ZeroDivisionError: division by zero \\(.*shop_jobs.py, line 2"),
    ],
)
async def test_an_agent_that_cannot_start_ends_with_one_sentence(
    tmp_path: Path, code: str, variables: dict[str, str], found: str
) -> None:
    (tmp_path / "shop_jobs.py").write_text(code)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("WARRENER_")}
    command = [sys.executable, "-m", "warrener_agent", "shop_jobs"]
    environment = {**inherited, "WARRENER_LEDGER_URL": "sqlite:///ledger.db", **variables}
    ended = await asyncio.to_thread(
        subprocess.run, command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True, timeout=60
    )
    assert ended.returncode == 2
    assert re.search(found, ended.stderr)
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("target", "output"),
    [
        ("no_such_module_here", "expected a module no_such_module_here, found none; neither"),
        ("shop/jobs.py", "named with dots: shop.jobs"),
        ("json", "expected an Agent in module json, found none"),
        ("warrener_agent.testing:run", "expected an Agent as warrener_agent.testing:run"),
    ],
)
def test_a_target_that_is_not_there_is_explained(target: str, output: str) -> None:
    with pytest.raises(AgentNotFound, match=output):
        load_agents([target])
    with pytest.raises(AgentNotFound, match="got none"):
        load_agents([])


@pytest.mark.parametrize(
    ("target", "served"), [("shop_jobs", {"greet", "wait"}), ("shop_jobs:second", {"wait"})]
)
def test_a_target_is_all_agents_of_a_module_or_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, served: set[str]
) -> None:
    tmp_path.joinpath("shop_jobs.py").write_text(MODULE)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert load_agents([target]).definitions.keys() == served


# -- settings that cannot work together -----------------------------------------------------------------


OUTLASTS = r"WARRENER_AGENT_CLAIM_TTL: expected less than supervisor_agent_timeout \({} s\)"


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"SUPERVISOR_AGENT_TIMEOUT": "8s", "AGENT_CLAIM_TTL": "8"}, OUTLASTS.format(8)),
        ({"SUPERVISOR_AGENT_TIMEOUT": "5s"}, OUTLASTS.format(5)),  # the default claim
        # It would forget sooner than a message lives.
        ({"AGENT_CLAIM_RETENTION": "3600"}, "WARRENER_AGENT_CLAIM_RETENTION: expected at least 2 h"),
    ],
)
def test_settings_that_cannot_work_together_are_refused(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], message: str
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(f"WARRENER_{name}", value)
    with pytest.raises(SettingsError, match=message):
        load(AgentSettings)


def test_a_timeout_that_only_the_supervisor_knows_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARRENER_AGENT_CLAIM_TTL", "10m")
    assert load(AgentSettings).agent_claim_ttl == 600


def test_a_ledger_in_postgresql_without_its_extra_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    for module in ("postgres", "postgres_sessions"):
        monkeypatch.delitem(sys.modules, f"warrener_agent.ledger.{module}", raising=False)
    with pytest.raises(ValueError, match=r"install warrener-agent\[postgres\]"):
        open_ledger("postgresql://user@host/name")


# -- the identity: a restarted agent has that of the one before; two live agents never share one --------


ENTROPY = SystemEntropy()
HOLDER = """
import sys
from pathlib import Path
from warrener_agent.identity import acquire_identity
from warrener_runtime.clock import SystemEntropy
held = acquire_identity(Path(sys.argv[1]), ["default"], SystemEntropy())
print(held.agent_id, flush=True)
sys.stdin.read()
"""


async def acquire(folder: Path, *queues: str) -> str:
    one = acquire_identity(folder, queues, ENTROPY)
    await one.release()
    return one.agent_id


async def test_who_comes_after_one_that_ended_takes_up_its_identity(tmp_path: Path) -> None:
    folder = tmp_path / "agents"
    first = await acquire(folder, "a", "b")
    assert await acquire(folder, "b", "a") == first
    [file] = folder.iterdir()
    assert await acquire(folder, "b") != first, "who serves other queues is another"
    file.write_text("not a name\n")
    fresh = await acquire(folder, "a", "b")
    assert fresh != first
    assert file.read_text() == fresh, "a damaged file is rewritten"
    names = {acquire_identity(place, ["a"], ENTROPY).agent_id for place in (file, file)}
    assert len(names) == 2, "new ones, where none can be stored"


def test_an_identity_names_its_user_and_that_of_another_is_replaced(tmp_path: Path) -> None:
    def acquire_as(user: str | None) -> str:
        one = acquire_identity(tmp_path, ["a"], ENTROPY, user)
        asyncio.run(one.release())
        return one.agent_id

    plain, first = acquire_as(None), acquire_as("pay.roll")
    assert "@" not in plain
    assert first.startswith("pay-roll@")
    assert acquire_as("pay.roll") == first
    assert acquire_as("etl").startswith("etl@")
    assert len(acquire_as("u" * 300)) <= 120


def test_an_identity_has_one_holder_and_is_free_when_that_is_killed(tmp_path: Path) -> None:
    def hold() -> tuple[subprocess.Popen[str], str]:
        pipe, command = subprocess.PIPE, [sys.executable, "-c", HOLDER, str(tmp_path)]
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        assert process.stdout is not None
        return process, process.stdout.readline().strip()

    processes = [hold(), hold()]
    first, second = (name for _, name in processes)
    assert first != second
    processes[0][0].kill()
    processes[0][0].wait(10)
    processes.append(hold())
    assert processes[-1][1] == first
    for process, _ in processes:
        process.communicate()


def test_identities_are_stored_beside_the_ledger_if_that_is_a_file() -> None:
    assert default_identity_folder("sqlite:////var/lib/jobs/ledger.db") == Path("/var/lib/jobs/agents")
    assert default_identity_folder("sqlite:///.warrener/ledger.db") == Path(".warrener/agents")
    assert default_identity_folder("postgresql://localhost/jobs") == Path(".warrener/agents")


# -- the version of the package that holds the handlers -------------------------------------------------


@pytest.mark.parametrize(
    ("distribution", "module", "version"),
    [("shop_jobs_a", "shop_jobs_a", "1.4.2"), ("the_shop", "shop_jobs_b", "1.4.2"), ("", "shop_alone", None)],
)
def test_it_is_that_of_the_distribution_of_the_modules_name_or_with_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, distribution: str, module: str, version: str | None
) -> None:
    folder = tmp_path / "site-packages"
    about = folder / f"{distribution}-{version}.dist-info"
    about.mkdir(parents=True)
    (folder / f"{module}.py").touch()
    if distribution:
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
        (about / "RECORD").write_text(f"{module}.py,,\n")
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    monkeypatch.setitem(sys.modules, module, ModuleType(module))  # forgotten after the test
    del sys.modules[module]
    import_module(module)
    assert find_code_version([module, "warrener_agent.definitions.program"]) == version
