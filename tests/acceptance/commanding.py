"""The command `warrener`, run beside a warren as a person would."""

import json
import os
import subprocess
import sys
from typing import Any

from tests.acceptance.warren import Warren


def words(warren: Warren, *said: str) -> dict[str, Any]:
    """How to start the command with these words."""
    return {
        "args": [sys.executable, "-m", "warrener", *said],
        "cwd": warren.folder,
        "env": {
            **{name: value for name, value in os.environ.items() if not name.startswith("WARRENER_")},
            "WARRENER_BROKER_URL": warren.broker_url,
            "WARRENER_STORE_URL": warren.store_url,
        },
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "text": True,
    }


def say(warren: Warren, *said: str, code: int = 0) -> str:
    """What it answers on stdout; it must end with this code."""
    told = subprocess.run(**words(warren, *said), timeout=150, check=False)
    assert told.returncode == code, f"{said} ended with {told.returncode}:\n{told.stdout}\n{told.stderr}"
    assert "Traceback" not in told.stderr, told.stderr
    return str(told.stdout)


def ask(warren: Warren, *said: str, code: int = 0) -> Any:
    """Its answer as JSON."""
    return json.loads(say(warren, *said, "--json", code=code))
