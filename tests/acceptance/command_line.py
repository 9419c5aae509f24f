"""The command `warrener`, run beside a warren as a person would."""

import json
import os
import subprocess
import sys
from itertools import count
from pathlib import Path
from typing import Any

from tests.acceptance.fork_server import Start
from tests.acceptance.warren import Warren

_TIMEOUT = 150  # seconds
_number = count()


def start(warren: Warren, *words: str) -> subprocess.Popen[str]:
    """The command with these words, as it runs."""
    return subprocess.Popen(
        [sys.executable, "-m", "warrener", *words],
        cwd=warren.folder,
        env=_environment(warren),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_command(warren: Warren, *words: str, code: int = 0) -> str:
    """What it answers on stdout; it must end with this code."""
    ended_with, out, err = _run_forked(warren, words) if warren.forks else _run(warren, words)
    assert ended_with == code, f"{words} ended with {ended_with}:\n{out}\n{err}"
    assert "Traceback" not in err, err
    return out


def run_json(warren: Warren, *words: str, code: int = 0) -> Any:
    """Its answer as JSON."""
    return json.loads(run_command(warren, *words, "--json", code=code))


def _run(warren: Warren, words: tuple[str, ...]) -> tuple[int, str, str]:
    with start(warren, *words) as command:
        out, err = command.communicate(timeout=_TIMEOUT)
    return command.returncode, out, err


def _run_forked(warren: Warren, words: tuple[str, ...]) -> tuple[int, str, str]:
    assert warren.forks is not None
    name = f"command-{next(_number)}"
    out, err = (Path(warren.folder, f"{name}.{stream}") for stream in ("out", "err"))
    command = warren.forks.start(
        "warrener", Start(words, _environment(warren), str(warren.folder), str(out), str(err))
    )
    return command.wait(_TIMEOUT), out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8")


def _environment(warren: Warren) -> dict[str, str]:
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("WARRENER_")},
        "WARRENER_BROKER_URL": warren.broker_url,
        "WARRENER_STORE_URL": warren.store_url,
        "COLUMNS": "200",  # a table that is cut to the terminal would be cut differently on each machine
    }
