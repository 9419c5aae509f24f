"""`python -m examples.pipeline.demo`: four releases, of which one is approved, while an agent is killed.

Exits 0 only if that one alone is published.
"""

import asyncio
import shutil
import sys
from pathlib import Path

from examples.pipeline.projects import write_project
from examples.warren import Warren

from warrener_client import Client, JobFailed

PATIENCE = 180.0  # seconds for a release


def main() -> int:
    """Run the story; the exit code."""
    folder = Path(".warrener/pipeline").absolute()
    shutil.rmtree(folder, ignore_errors=True)
    warren = Warren(folder / "up", "examples.pipeline.handlers")
    print("Starting a private RabbitMQ, the scheduler, the supervisor and two agents …")
    try:
        warren.start(within=240)
        asyncio.run(release_all(warren, folder))
    finally:
        warren.stop()
    published = [file.name for file in (folder / "published").glob("*")]
    print(f"published: {', '.join(published)}")
    return 0 if published == ["greeter-1.0.tar.gz"] and warren.restarted else 1


async def release_all(warren: Warren, folder: Path) -> None:
    """Request the releases, kill an agent while the first one waits for its approval, and approve it."""
    sources = [
        write_project(folder / "greeter-1.0.tar"),
        write_project(folder / "greeter-1.1.tar", greeter="def greet(name: str) -> str:\n    return name\n"),
        write_project(folder / "greeter-1.2.tar", greeter="def greet(name:\n"),
        write_project(folder / "greeter-1.3.tar"),
    ]
    async with Client(warren.broker_url()) as client:
        jobs = [
            await client.request(
                "pipeline.release",
                {
                    "source": str(source),
                    "folder": str(folder),
                    **({"approval_timeout": "PT3S"} if "1.3" in source.name else {}),
                },
            )
            for source in sources
        ]
        package = folder / "builds" / f"{jobs[0].job_id}.tar.gz"
        while not package.exists():  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.1)
        print(f"kill -9 of an agent (process {warren.kill('agent')}); Ada approves greeter-1.0")
        await client.send_signal(jobs[0].job_id, "approved", {"by": "Ada"})
        for source, job in zip(sources, jobs, strict=True):
            try:
                print(f"{source.stem}: {await job.result(timeout=PATIENCE)}")
            except JobFailed as failed:
                print(f"{source.stem}: {failed}")


if __name__ == "__main__":
    sys.exit(main())
