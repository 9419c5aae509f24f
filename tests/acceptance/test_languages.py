"""The programs of `examples/languages` request jobs of real services, where their toolchains are there."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.acceptance.warren import ROOT, Warren

PROGRAMS = ROOT / "examples" / "languages"
MAX_LINES = 100
PREPARED_BY: dict[str, Sequence[str]] = {
    "node": ("npm", "install", "--silent", "--no-audit", "--no-fund"),
    "go": ("go", "build", "-o", "request", "."),
    "java": ("mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"),
    "shell": ("amqp-publish", "--usage"),
}
STARTED_BY: dict[str, Sequence[str]] = {
    "node": ("node", "request.mjs"),
    "go": ("./request",),
    "java": ("java", "-cp", "lib/*", "Request.java"),
    "shell": ("./request.sh",),
}
EXPECTED = """\
answer: Hello, Ada!
rejection: bad_arguments
repeat: same job
batch: Hello, Bob! Hello, Eve!
cancel: true cancelled
schedule: true
signal: Ada met Bob
"""


@pytest.mark.parametrize("language", PREPARED_BY)
@pytest.mark.timeout(300)
def test_a_program_of_another_language_requests_jobs(warren: Warren, language: str, tmp_path: Path) -> None:
    if shutil.which(PREPARED_BY[language][0]) is None:
        pytest.skip(f"expected {PREPARED_BY[language][0]}, got none: install the toolchain of {language}")
    folder = shutil.copytree(PROGRAMS / language, tmp_path / language)
    subprocess.run(PREPARED_BY[language], cwd=folder, check=True, timeout=240)
    warren.start_all("examples.languages.handlers")
    environment = {**os.environ, "WARRENER_BROKER_URL": warren.broker_url}
    found = subprocess.run(
        STARTED_BY[language],
        cwd=folder,
        env=environment,
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
    )
    assert (found.returncode, found.stdout) == (0, EXPECTED), found.stderr


@pytest.mark.parametrize(
    "program", ["node/request.mjs", "go/main.go", "java/Request.java", "shell/request.sh"]
)
def test_a_program_fits_on_two_screens(program: str) -> None:
    assert len((PROGRAMS / program).read_text("utf-8").splitlines()) < MAX_LINES
