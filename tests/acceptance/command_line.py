"""The command `warrener`, run beside a warren as a person would."""

import json
import os
import subprocess
import sys
from typing import Any

from tests.acceptance.warren import Warren


def start(warren: Warren, *words: str) -> subprocess.Popen[str]:
    """The command with these words, as it runs."""
    return subprocess.Popen(
        [sys.executable, "-m", "warrener", *words],
        cwd=warren.folder,
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith("WARRENER_")},
            "WARRENER_BROKER_URL": warren.broker_url,
            "WARRENER_STORE_URL": warren.store_url,
            "COLUMNS": "200",  # a table that is cut to the terminal would be cut differently on each machine
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_command(warren: Warren, *words: str, code: int = 0) -> str:
    """What it answers on stdout; it must end with this code."""
    with start(warren, *words) as command:
        out, err = command.communicate(timeout=150)
    assert command.returncode == code, f"{words} ended with {command.returncode}:\n{out}\n{err}"
    assert "Traceback" not in err, err
    return out


def run_json(warren: Warren, *words: str, code: int = 0) -> Any:
    """Its answer as JSON."""
    return json.loads(run_command(warren, *words, "--json", code=code))
