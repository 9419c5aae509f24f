"""The start of an agent: its targets, its settings, its identity, and the version of its code."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from warrener_agent import Agent
from warrener_agent.__main__ import AgentNotFound, load_agents
from warrener_agent.identity import acquire_identity, default_identity_folder, find_code_version
from warrener_agent.ledger import open_ledger
from warrener_agent.settings import AgentSettings
from warrener_runtime.clock import SystemEntropy
from warrener_runtime.settings import SettingsError, load

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


async def startup_error(folder: Path, *words: str, **variables: str) -> str:
    """What `python -m warrener_agent WORDS` in `folder` writes, when it ends at once."""
    folder.joinpath("shop_jobs.py").write_text(MODULE)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("WARRENER_")}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "warrener_agent",
        *words,
        cwd=folder,
        env={**inherited, "WARRENER_LEDGER_URL": "sqlite:///ledger.db", **variables},
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(WAIT):
            _, output = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
    assert process.returncode == 2, output.decode()
    return output.decode()


@pytest.mark.parametrize(
    ("words", "variables", "named"),
    [
        (["nowhere"], {}, "expected a module nowhere, found none"),
        ([], {}, "got none"),
        (["shop_jobs"], {"WARRENER_AGENT_SLOTS": "many"}, "WARRENER_AGENT_SLOTS"),
        (["shop_jobs"], {"WARRENER_LEDGER_URL": "mysql://x"}, "WARRENER_LEDGER_URL"),
    ],
)
async def test_the_error_names_what_is_missing_or_wrong(
    tmp_path: Path, words: list[str], variables: dict[str, str], named: str
) -> None:
    output = await startup_error(tmp_path, *words, **variables)
    assert named in output
    assert "Traceback" not in output


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


# -- settings that cannot work together -----------------------------------------------------------------


OUTLASTS = r"WARRENER_AGENT_CLAIM_TTL: expected less than supervisor_agent_timeout \({} s\)"


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"SUPERVISOR_AGENT_TIMEOUT": "8s", "AGENT_CLAIM_TTL": "8"}, OUTLASTS.format(8)),
        ({"SUPERVISOR_AGENT_TIMEOUT": "8s", "AGENT_CLAIM_TTL": "8s"}, OUTLASTS.format(8)),
        ({"SUPERVISOR_AGENT_TIMEOUT": "8s", "AGENT_CLAIM_TTL": "1m"}, OUTLASTS.format(8)),
        ({"SUPERVISOR_AGENT_TIMEOUT": "5s"}, OUTLASTS.format(5)),
        ({"AGENT_CLAIM_RETENTION": "3600"}, "WARRENER_AGENT_CLAIM_RETENTION: expected at least 2 h"),
    ],
    ids=["as long", "in seconds", "longer", "the default claim", "forgets sooner than a message lives"],
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
    """Take an identity up, and let it go."""
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


def test_an_identity_has_one_holder_and_is_free_when_that_is_killed(tmp_path: Path) -> None:
    def hold() -> tuple[subprocess.Popen[str], str]:
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
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


HANDLERS = """
from warrener_agent import Agent

agent = Agent()

@agent.job("shop.bill")
async def bill() -> None: ...
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "site-packages"
    folder.mkdir()
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    return folder


def install(folder: Path, distribution: str, module: str, version: str) -> None:
    (folder / f"{module}.py").write_text(HANDLERS)
    about = folder / f"{distribution}-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
    (about / "RECORD").write_text(f"{module}.py,,\n")


def code_version(agent: Agent) -> str | None:
    return find_code_version(one.handler.__module__ for one in agent.definitions.values())


@pytest.mark.parametrize(
    ("distribution", "module"), [("shop_jobs_a", "shop_jobs_a"), ("the_shop", "shop_jobs_b")]
)
def test_it_is_the_version_of_the_distribution_of_that_name_or_with_its_files(
    installed: Path, distribution: str, module: str
) -> None:
    install(installed, distribution, module, "1.4.2")
    assert code_version(load_agents([module])) == "1.4.2"


def test_a_module_of_no_distribution_and_an_agent_without_handlers_have_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop_alone.py").write_text(HANDLERS)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert code_version(load_agents(["shop_alone"])) is None
    assert code_version(Agent()) is None
