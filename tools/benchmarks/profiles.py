"""Where the time of each of our processes goes, by py-spy: a flame graph and the functions that cost most."""

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from tools.benchmarks.measurements import begun
from tools.benchmarks.one_round import end_to_end
from tools.benchmarks.plan import Plan
from tools.benchmarks.shared_servers import SharedServers
from tools.benchmarks.stacks import top
from tools.benchmarks.turns import print_progress

_SECONDS = 8  # of sampling, while jobs are asked for without a pause
_RATE = 100  # samples a second


def profile(servers: SharedServers, plan: Plan, folder: Path) -> None:
    """Sample scheduler, supervisor and one agent under full load: `profile-<part>.svg` and `.txt`.

    A sample is a stack, taken from outside: what runs is not slowed down enough to change its shape.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        place = stack.enter_context(servers.place())
        stage, workers = begun(place, servers, plan, stack=stack, first=lambda _: None)
        end_to_end(stage, workers)  # warm
        sampled = {part: pids[0] for part, pids in workers.by_part.items()}
        spies = [
            _spy(pid, folder / f"profile-{part}{suffix}", form)
            for part, pid in sampled.items()
            for form, suffix in (("flamegraph", ".svg"), ("raw", ".raw"))
        ]
        while any(spy.poll() is None for spy in spies):
            end_to_end(stage, workers)
        if failed := [spy.args for spy in spies if spy.returncode]:
            raise RuntimeError(f"expected py-spy to sample, it failed at {failed}: it needs ptrace")
    for part in sampled:
        raw = folder / f"profile-{part}.raw"
        hot_lines = top(raw.read_text(encoding="utf-8"))
        (folder / f"profile-{part}.txt").write_text(hot_lines, encoding="utf-8")
        raw.unlink()
        print_progress(f"profile of {part}:\n{hot_lines}")


def _spy(pid: int, path: Path, form: str) -> "subprocess.Popen[bytes]":
    command = [
        str(Path(sys.executable).with_name("py-spy")),
        "record",
        "--pid",
        str(pid),
        "--output",
        str(path),
    ]
    return subprocess.Popen(
        [*command, "--format", form, "--duration", str(_SECONDS), "--rate", str(_RATE)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
