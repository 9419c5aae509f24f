"""The agent of the pipeline: five programs, and the workflow that calls them. Artefacts are passed by their
paths, so all agents see the same folder."""

import asyncio
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from warrener_agent import Agent, Fail, Program, Workflow

agent = Agent()

APPROVAL_TIMEOUT = timedelta(days=2)


class Checkout(BaseModel):
    """The arguments of `pipeline.checkout`."""

    source: Path
    workspace: Path


class Workspace(BaseModel):
    """The arguments of what works in a workspace alone."""

    workspace: Path


class Package(BaseModel):
    """The arguments of `pipeline.package`."""

    workspace: Path
    package: Path


class Publication(BaseModel):
    """The arguments of `pipeline.publish`."""

    package: Path
    published: Path


class Release(BaseModel):
    """The result of the workflow."""

    published: Path
    approval: Any


# An exit code of `no_retry_on` is the program's verdict on the project: no other attempt changes it. Any
# other failure, such as a kill by the kernel, is tried again.
agent.command(
    "pipeline.checkout",  # GNU tar makes the folder; what a killed attempt has left there is overwritten
    Program(["tar", "--extract", "--file={{ source }}", "--one-top-level={{ workspace }}"], no_retry_on=(2,)),
    arguments=Checkout,
    result=None,
)
agent.command(
    "pipeline.compile",
    Program([sys.executable, "-m", "compileall", "-q", "{{ workspace }}"], no_retry_on=(1,)),
    arguments=Workspace,
    result=None,
)
agent.command(
    "pipeline.test",
    Program([sys.executable, "-B", "-m", "unittest", "discover"], cwd="{{ workspace }}", no_retry_on=(1, 5)),
    arguments=Workspace,
    result=None,
    timeout="10m",
)
agent.command(
    "pipeline.package",
    Program(
        [
            "tar",
            "--create",
            "--gzip",
            "--file={{ package }}",
            "--exclude=tests",
            "--directory={{ workspace }}",
            ".",
        ]
    ),
    arguments=Package,
    result=None,
)
agent.command(
    "pipeline.publish",
    Program(["install", "-D", "--mode=444", "{{ package }}", "{{ published }}"]),
    arguments=Publication,
    result=None,
)


@agent.workflow("pipeline.release")
async def release(
    flow: Workflow, source: Path, folder: Path, approval_timeout: timedelta = APPROVAL_TIMEOUT
) -> Release:
    """Build a package of a project, and publish it once somebody has approved it."""
    if not (source.is_absolute() and folder.is_absolute()):
        raise Fail(
            f"expected absolute paths, got {source} and {folder}: programs run in folders of their own"
        )
    workspace = folder / "builds" / str(flow.job_id)
    package = workspace.with_suffix(".tar.gz")
    published = folder / "published" / f"{source.stem}.tar.gz"
    await flow.call("pipeline.checkout", {"source": source, "workspace": workspace})
    await asyncio.gather(  # the first one that fails ends the workflow, which cancels the other
        flow.call("pipeline.compile", {"workspace": workspace}),
        flow.call("pipeline.test", {"workspace": workspace}),
    )
    await flow.call("pipeline.package", {"workspace": workspace, "package": package})
    try:
        async with asyncio.timeout(approval_timeout.total_seconds()):
            approval = await flow.receive("approved")
    except TimeoutError:
        raise Fail(f"expected an approval within {approval_timeout}, got none; {package} stays") from None
    await flow.call("pipeline.publish", {"package": package, "published": published})
    return Release(published=published, approval=approval)
