"""The README's snippets, run in its order by a stranger: handlers, asker, command, plain tool."""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.acceptance.warren import ROOT, Warren, until

from warrener_contracts.identity import job_id_of
from warrener_contracts.state_machine import JobState
from warrener_store import open_store
from warrener_store.jobs.rows import JobFilter

README = (ROOT / "README.md").read_text()
PYTHON = dict(re.findall(r"```python\n# (\w+\.py)\n(.*?)```", README, re.DOTALL))
SHELL: list[str] = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)


@pytest.fixture
def reader(warren: Warren) -> Warren:
    """Somebody who has copied the files, and whose services run."""
    for name, text in PYTHON.items():
        (warren.folder / name).write_text(text)
    warren.start_all("hello", "accounts")
    until(lambda: asyncio.run(_announced(warren)), "both job types to be announced")
    return warren


def test_the_first_page_is_short_and_shows_code_early() -> None:
    lines = README.splitlines()
    assert len(lines) < 150
    assert next(number for number, line in enumerate(lines, start=1) if line.startswith("```python")) < 30
    assert set(PYTHON) == {"hello.py", "request.py", "accounts.py"}


def test_every_link_of_the_first_page_leads_somewhere() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_requests_from_python_from_the_command_and_by_a_plain_tool(reader: Warren) -> None:
    assert run(reader, sys.executable, "request.py") == "Hello, Ada!"

    command = next(block for block in SHELL if block.startswith("warrener request"))
    assert "Hello, World!" in run(reader, "sh", "-c", command)

    if shutil.which("amqp-publish") is None:
        pytest.skip("amqp-publish is not here: install the package amqp-tools")
    run(reader, "sh", "-c", next(block for block in SHELL if block.startswith("amqp-publish")))
    assert until(lambda: asyncio.run(_result(reader, "shop", "order-17")), "order-17") == "Hello, Grace!"


def test_a_transaction_requests_its_child_job(reader: Warren) -> None:
    answer = json.loads(
        run(reader, "warrener", "request", "accounts.open", "owner=Alan", "--wait", "--json", "--id", "alan")
    )
    assert answer["result"] == len("Alan")
    assert until(lambda: asyncio.run(_greeting_of(reader, "Alan")), "the child job") == "Hello, Alan!"


def run(warren: Warren, *command: str) -> str:
    """What a command prints, in the reader's folder, with the venv on the path."""
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "WARRENER_BROKER_URL": warren.broker_url,
        "WARRENER_STORE_URL": warren.store_url,
    }
    done = subprocess.run(
        command, cwd=warren.folder, env=environment, capture_output=True, text=True, timeout=90, check=False
    )
    assert done.returncode == 0, f"{command}:\n{done.stdout}\n{done.stderr}"
    return done.stdout.strip()


async def _announced(warren: Warren) -> bool:
    store = open_store(warren.store_url)
    await store.start()
    try:
        return len(await store.job_types()) == 2
    finally:
        await store.close()


async def _result(warren: Warren, source: str, event_id: str) -> object:
    store = open_store(warren.store_url)
    await store.start()
    try:
        job_id = job_id_of(source, event_id)
        job = (await store.jobs_by_id([job_id])).get(job_id)
        return job.result if job and job.state is JobState.SUCCEEDED else None
    finally:
        await store.close()


async def _greeting_of(warren: Warren, name: str) -> object:
    store = open_store(warren.store_url)
    await store.start()
    try:
        jobs = await store.list_jobs(JobFilter(job_type="hello.greet"))
        return next((job.result for job in jobs if job.arguments == {"name": name} and job.result), None)
    finally:
        await store.close()
