"""A forked service has what a started one has: folder, environment, log, chance and exit code. That signals
reach it and are its exit code, the stories of killed and frozen services would miss first."""

import os
from pathlib import Path

import psutil
import pytest
from tests.acceptance.fork_server import ForkedProcess, Start, can_fork
from tests.acceptance.warren import until

SERVICE = """
import os, random, signal, sys, time
from pathlib import Path

print("loaded by another:", "warrener_scheduler.wiring" in sys.modules, flush=True)
print("folder:", Path.cwd().name, "colour:", os.environ.get("COLOUR"), "arguments:", *sys.argv[1:])
print("path:", sys.path[0] == str(Path.cwd()), flush=True)
print("signals:", signal.getsignal(signal.SIGINT) is signal.default_int_handler, flush=True)
print("chance:", random.random(), file=sys.stderr, flush=True)
if sys.argv[1] == "wait":
    time.sleep(60)
sys.exit(int(sys.argv[1]))
"""


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    """A folder with a service that prints what it has."""
    package = tmp_path / "modules" / "warrener_sample"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(SERVICE, encoding="utf-8")
    return package.parent


def start(modules: Path, folder: Path, *arguments: str) -> tuple[ForkedProcess, Path]:
    folder.mkdir(exist_ok=True)
    log = folder / "log"
    environment = {**os.environ, "COLOUR": "green", "PYTHONPATH": str(modules)}
    request = Start(arguments, environment, str(folder), str(log), str(log))
    return ForkedProcess("warrener_sample", request), log


def test_each_runs_in_a_process_of_its_own_with_what_it_was_given(modules: Path, tmp_path: Path) -> None:
    begun = {name: start(modules, tmp_path / name, "3", "more") for name in ("here", "there")}
    chances: set[str] = set()
    for name, (process, log) in begun.items():
        assert process.wait(60) == process.poll() == process.returncode == 3
        *lines, chance = log.read_text().splitlines()
        assert lines == [
            "loaded by another: True",
            f"folder: {name} colour: green arguments: 3 more",
            "path: True",
            "signals: True",
        ]
        chances.add(chance)
    assert len(chances) == 2


def test_it_does_not_outlive_its_server(modules: Path, tmp_path: Path) -> None:
    process, log = start(modules, tmp_path, "wait")
    until(log.read_text, "the service to run")
    server = psutil.Process(process.pid).parent()
    assert server is not None
    server.kill()
    until(lambda: not psutil.pid_exists(process.pid), "the service to be gone")


def test_what_the_interpreter_reads_or_imports_when_it_starts_needs_a_start(tmp_path: Path) -> None:
    environment = {**os.environ, "WARRENER_STORE_URL": "sqlite://", "PYTHONPATH": f"{tmp_path}{os.pathsep}x"}
    assert can_fork(environment)
    for name in ("PYTHONTZPATH", "LD_PRELOAD", "OTEL_PROPAGATORS", "TZ"):
        assert not can_fork({**environment, name: "other"}), name
    for module in ("sitecustomize.py", "usercustomize.py"):
        (tmp_path / module).touch()
        assert not can_fork(environment), module
        (tmp_path / module).unlink()
