"""`warrener … | head`: a reader that goes away ends a command quietly."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("arguments", [("doctor",), ("doctor", "--json"), ("jobs", "--json"), ("agents",)])
def test_a_command_ends_quietly_when_its_reader_has_gone(
    here: Path, vhost_url: str, arguments: tuple[str, ...]
) -> None:
    environment = os.environ | {
        "WARRENER_BROKER_URL": vhost_url,
        "WARRENER_STORE_URL": f"sqlite:///{here}/state.db",
    }
    warrener = (sys.executable, "-m", "warrener")
    subprocess.run([*warrener, "migrate"], env=environment, check=True, capture_output=True)
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run(
        [*warrener, *arguments],
        stdout=writer,
        stderr=subprocess.PIPE,
        env=environment,
        text=True,
        check=False,
    )
    os.close(writer)
    nothing_to_print = arguments == ("agents",)
    assert ended.returncode == (0 if nothing_to_print else 141), ended.stderr
    assert "Traceback" not in ended.stderr
    assert len(ended.stderr.splitlines()) <= 1
