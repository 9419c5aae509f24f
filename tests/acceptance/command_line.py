"""The command `warrener`, run beside a warren as a person would."""

import json
import os
import subprocess
import sys
from itertools import count
from pathlib import Path
from typing import Any

from tests.acceptance.fork_server import ForkedProcess, Start
from tests.acceptance.warren import Warren

BARE = {
    **{name: value for name, value in os.environ.items() if not name.startswith("WARRENER_")},
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
}
"""An environment without settings of Warrener, and with its command on the path."""
_TIMEOUT = 150  # seconds
_number = count()


def start(warren: Warren, *words: str, **environment: str) -> subprocess.Popen[str]:
    """The command with these words, as it runs."""
    return subprocess.Popen(
        [sys.executable, "-m", "warrener", *words],
        cwd=warren.folder,
        env=_environment(warren) | environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def call_command(warren: Warren, *words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """The command's end: its exit code and what it has written."""
    if not warren.forks:
        with start(warren, *words, **environment) as command:
            out, err = command.communicate(timeout=_TIMEOUT)
        return subprocess.CompletedProcess(words, command.returncode, out, err)
    name = f"command-{next(_number)}"
    files = [Path(warren.folder, f"{name}.{stream}") for stream in ("out", "err")]
    settings = _environment(warren) | environment
    forked = ForkedProcess("warrener", Start(words, settings, str(warren.folder), *map(str, files)))
    code = forked.wait(_TIMEOUT)
    return subprocess.CompletedProcess(words, code, *(file.read_text(encoding="utf-8") for file in files))


def run_in(folder: Path, *command: str, timeout: float = _TIMEOUT) -> "subprocess.CompletedProcess[str]":
    """The end of a command in this folder, with nothing of Warrener in its environment."""
    done = subprocess.run(
        command, cwd=folder, env=BARE, capture_output=True, text=True, timeout=timeout, check=False
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


def run_command(warren: Warren, *words: str, code: int = 0, **environment: str) -> str:
    """What it answers on stdout; it must end with this code."""
    ended = call_command(warren, *words, **environment)
    assert ended.returncode == code, f"{words} ended with {ended.returncode}:\n{ended.stdout}\n{ended.stderr}"
    assert "Traceback" not in ended.stderr, ended.stderr
    return ended.stdout


def run_json(warren: Warren, *words: str, code: int = 0, **environment: str) -> Any:
    """Its answer as JSON."""
    return json.loads(run_command(warren, *words, "--json", code=code, **environment))


def _environment(warren: Warren) -> dict[str, str]:
    return {
        **BARE,
        "WARRENER_BROKER_URL": warren.broker_url,
        "WARRENER_STORE_URL": warren.store_url,
        "COLUMNS": "200",  # a table that is cut to the terminal would be cut differently on each machine
    }
