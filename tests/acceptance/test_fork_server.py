"""A forked service has what a started one has: folder, environment, log, signals and exit code."""

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil
import pytest
from tests.acceptance.fork_server import ForkedProcess, ForkServer, ForkServers, Start, can_fork
from tests.acceptance.warren import Warren, until

SERVICE = """
import os, random, signal, sys, threading, time
from pathlib import Path

LOADED = os.getpid()

def main():
    print("loaded by another:", LOADED != os.getpid(), flush=True)
    print("folder:", Path.cwd().name, "colour:", os.environ.get("COLOUR"), "arguments:", *sys.argv[1:])
    print("path:", sys.path[0] == str(Path.cwd()), flush=True)
    print("signals:", signal.getsignal(signal.SIGINT) is signal.default_int_handler, flush=True)
    print("chance:", random.random(), file=sys.stderr, flush=True)
    if sys.argv[1] == "wait":
        time.sleep(60)
    sys.exit(int(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package of a service that says where it is."""
    root = tmp_path_factory.mktemp("modules")
    package = root / "warrener_sample"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "story.py").write_text(SERVICE, encoding="utf-8")
    (package / "__main__.py").write_text(
        "from warrener_sample.story import main\n\nif __name__ == '__main__':\n    main()\n", encoding="utf-8"
    )
    return root


@pytest.fixture
def server(modules: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ForkServer]:
    """A fork server of that service."""
    monkeypatch.setenv("PYTHONPATH", str(modules))
    one = ForkServer("warrener_sample")
    yield one
    one.close()


def start(server: ForkServer, folder: Path, *arguments: str) -> tuple[ForkedProcess, Path]:
    folder.mkdir(exist_ok=True)
    environment: Mapping[str, str] = {**os.environ, "COLOUR": "green"}
    log = folder / "log"
    return server.start(Start(arguments, environment, str(folder), str(log), str(log))), log


def test_it_runs_in_a_process_of_its_own_with_what_it_was_given(server: ForkServer, tmp_path: Path) -> None:
    process, log = start(server, tmp_path / "here", "3", "more")
    assert process.wait(60) == process.poll() == process.returncode == 3
    assert log.read_text().splitlines()[:4] == [
        "loaded by another: True",
        "folder: here colour: green arguments: 3 more",
        "path: True",
        "signals: True",
    ]


def test_each_has_chance_of_its_own(server: ForkServer, tmp_path: Path) -> None:
    begun = [start(server, tmp_path / str(number), "0") for number in range(3)]
    assert [process.wait(60) for process, _ in begun] == [0, 0, 0]
    assert len({log.read_text().splitlines()[-1] for _, log in begun}) == 3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_signals_reach_it_and_are_its_exit_code(
    server: ForkServer, tmp_path: Path, number: signal.Signals
) -> None:
    process, _ = start(server, tmp_path, "wait")
    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    process.send_signal(number)
    assert process.wait(60) == -number
    process.send_signal(number)  # nobody is hit


def test_nothing_of_it_outlives_its_server(server: ForkServer, tmp_path: Path) -> None:
    process, _ = start(server, tmp_path, "wait")
    server.close()
    until(lambda: not psutil.pid_exists(process.pid), "the service to be gone")


def test_what_the_interpreter_reads_when_it_starts_needs_a_start() -> None:
    assert can_fork({**os.environ, "WARRENER_STORE_URL": "sqlite://", "PYTHONPATH": "elsewhere"})
    for name in ("PYTHONTZPATH", "LD_PRELOAD", "OTEL_PROPAGATORS", "TZ"):
        assert not can_fork({**os.environ, name: "other"}), name


@pytest.mark.parametrize("module", ["sitecustomize", "usercustomize"])
def test_a_module_that_the_interpreter_imports_when_it_starts_needs_a_start(
    tmp_path: Path, module: str
) -> None:
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}elsewhere"}
    assert can_fork(environment)
    (tmp_path / f"{module}.py").touch()
    assert not can_fork(environment)


def test_a_warren_starts_such_a_service_and_forks_the_others(tmp_path: Path, forks: ForkServers) -> None:
    warren = Warren(tmp_path, "amqp://127.0.0.1:1", "sqlite:///none", "sqlite:///none", forks=forks)
    forked = warren.start("scheduler")
    assert isinstance(forked.process, ForkedProcess)
    forked.kill()
    (tmp_path / "sitecustomize.py").write_text("import os\nos._exit(42)\n", encoding="utf-8")
    assert warren.start("scheduler").wait_ended() == 42, "it was imported"
