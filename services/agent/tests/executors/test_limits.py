"""A handler that misbehaves is stopped within its limits, has its own error type, and disturbs no other
attempt (issue 4, isolation)."""

import asyncio
import errno
import json
import os
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from services.agent.tests.executors.test_executors import no_effects
from services.agent.tests.processes import until_gone, until_written
from services.agent.tests.stage import LONG, HastenedClock, Stage

from warrener_agent import Agent, Limits, Program
from warrener_agent.__main__ import load_agents
from warrener_agent.executors import isolated
from warrener_agent.executors import limits as executor_limits
from warrener_agent.executors import process as process_executor
from warrener_agent.executors.frames import TRACE_VARIABLES
from warrener_agent.executors.isolated import filter_environment
from warrener_agent.executors.limits import Cgroup
from warrener_agent.executors.process_tree import Usage
from warrener_agent.executors.sandbox import rlimit_cpu
from warrener_agent.testing import run, temporary_ledger
from warrener_contracts.events import AttemptFailed, AttemptSucceeded, ErrorInfo, FlightRecord
from warrener_runtime.cgroups import NoControlGroup, own_group

MIB = 1 << 20


async def failed(agent: Agent, job_type: str, **arguments: object) -> ErrorInfo:
    trial = await run(agent, job_type, arguments)
    assert trial.error is not None, trial.result
    return trial.error


def record_of(error: ErrorInfo) -> FlightRecord:
    assert error.flight_record is not None
    return error.flight_record


@pytest.mark.parametrize(
    ("job_type", "where"),
    [
        ("spins", "in spins"),
        ("sleeps_in_c", "in sleeps_in_c"),
        ("waits_in_tasks", "in inner"),
        ("forks", "in forks"),
    ],
)
async def test_what_hangs_is_stopped_at_its_timeout_with_its_stacks_and_its_neighbours_work_on(
    stage: Stage, agent: Agent, tmp_path: Path, *, job_type: str, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A child that cannot answer writes its stacks at a signal, and has a second and more for it here.
    answers = job_type != "sleeps_in_c"
    monkeypatch.setattr(
        process_executor, "_ANSWER_TIMEOUT" if answers else "_WRITE_TIMEOUT", 30.0 if answers else 10.0
    )
    clock = HastenedClock()
    await stage.enter(agent, agent_announce_delay=0.0, clock=clock, agent_claim_ttl=3600.0)
    over, pids = tmp_path / "over", tmp_path / "pids"
    neighbour = await stage.dispatch("neighbour", {"until": str(over)}, timeout=2 * LONG)
    job = await stage.dispatch(job_type, {"pids": str(pids)}, timeout=LONG)
    processes = 3 if job_type == "forks" else 1
    await until_written(pids, processes)
    assert not stage.of(AttemptFailed)
    clock.skip(LONG)
    data = (await stage.wait_for_event(AttemptFailed, job)).data
    assert data.error.kind == "timeout"
    record = record_of(data.error)
    assert where in (record.stacks or "")
    assert record.processes == processes
    if job_type == "spins":
        assert (record.progress, record.progress_note) == (0.25, "spinning")
        assert "about to spin" in (record.log or "")
    assert record.memory_bytes
    assert record.cpu_seconds
    await until_gone([int(pid) for pid in pids.read_text().split()])
    over.touch()
    assert (await stage.wait_for_event(AttemptSucceeded, neighbour)).data.result > 0


async def test_memory_and_processor_time_are_limited_alone_and_together(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Wait for the stacks of a child for longer than an agent does, which a busy machine may need.
    monkeypatch.setattr(process_executor, "_ANSWER_TIMEOUT", 30.0)
    raised = await failed(agent, "allocates")
    assert (raised.kind, raised.type, raised.retryable) == ("error", "OutOfMemory", True)
    assert "256.0MiB" in raised.message
    assert "in allocates" in (raised.stack or "")
    for job_type, error_type in (
        ("allocates_below", "OutOfMemory"),
        ("burns", "CpuTimeLimit"),
        ("burns_below", "CpuTimeLimit"),
    ):
        crashed = await failed(agent, job_type)
        assert (crashed.kind, crashed.type) == ("crash", error_type)
        record = record_of(crashed)
        assert f"in {job_type}" in (record.stacks or "")
        if job_type == "burns":
            assert "SIGXCPU" in crashed.message
        elif job_type == "allocates_below":
            assert (record.processes or 0) > 1


async def test_processes_open_files_and_the_size_of_files_are_limited(agent: Agent, tmp_path: Path) -> None:
    assert (await failed(agent, "multiplies")).type == "ProcessLimit"
    assert "Too many open files" in (await failed(agent, "opens")).message
    assert "File too large" in (await failed(agent, "writes", path=str(tmp_path / "large"))).message
    assert (tmp_path / "large").stat().st_size <= 1024


async def test_a_handler_that_uses_a_pool_of_processes_is_left_in_peace(agent: Agent) -> None:
    assert (await run(agent, "uses_a_pool")).result == [1, 2, 3]


@pytest.mark.parametrize(
    ("how", "kind", "error_type", "message"),
    [
        ("SIGSEGV", "crash", "SIGSEGV", "signal 11"),
        ("SIGKILL", "crash", "SIGKILL", "by somebody else"),
        ("SIGTERM", "crash", "SIGTERM", "signal 15"),
        ("7", "crash", "ExitCode", "exit code 7"),
        ("polite", "error", "SystemExit", "polite"),
    ],
)
async def test_g4_each_kind_of_crash_has_its_error_type_and_its_last_log_lines_and_undoes_all(
    agent: Agent, how: str, kind: str, error_type: str, message: str
) -> None:
    async with temporary_ledger() as ledger:
        error = (await run(agent, "dies", {"how": how}, ledger=ledger)).error
        assert error is not None
        assert await no_effects(ledger)
    assert (error.kind, error.type, error.retryable) == (kind, error_type, True)
    assert message in error.message
    if kind == "crash":
        record = record_of(error)
        assert f"about to die by {how}" in (record.log or "")
        assert ("in dies" in (record.stacks or "")) is (how == "SIGSEGV"), "only there could it say so"


async def test_nothing_that_an_attempt_has_started_outlives_it(stage: Stage, agent: Agent) -> None:
    await stage.enter(agent, agent_slots=1)
    job = await stage.dispatch("leaves", {})
    await until_gone((await stage.wait_for_event(AttemptSucceeded, job)).data.result)
    job = await stage.dispatch("leaves", {"fail": True})
    await until_gone([int((await stage.wait_for_event(AttemptFailed, job)).data.error.message)])


async def test_a_child_is_recycled_after_so_many_jobs_and_with_so_much_memory(
    stage: Stage, agent: Agent
) -> None:
    await stage.enter(agent, agent_slots=1)

    async def pid_of(job_type: str, **arguments: int) -> int:
        pid: int = (await stage.succeed(job_type, arguments)).result
        return pid

    first, second, third = [await pid_of("recycled") for _ in range(3)]
    assert first == second != third
    first, second, third = [await pid_of("grows", mib=mib) for mib in (1, 200, 1)]
    assert first == second != third


async def test_secrets_that_were_not_named_are_not_in_the_environment(
    agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = {
        "WARRENER_BROKER_URL": "amqp://warren:rabbit@broker/",
        "AWS_SECRET_ACCESS_KEY": "x",
        "BANK_TOKEN": "x",
        "DB": "postgresql://me:pass@db/shop",
    }
    for name, value in {**secrets, "SHOP_TOKEN": "asked for", "SHOP_URL": "https://shop/"}.items():
        monkeypatch.setenv(name, value)
    trial = await run(agent, "looks", {"path": str(tmp_path / "file")})
    assert trial.error is None
    assert not {*secrets, "SHOP_URL"} & trial.result.keys()
    assert trial.result["SHOP_TOKEN"] == "asked for"
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600


def group_to_make() -> Path | None:
    """A group of this machine that does not exist yet and could, even one without controllers."""
    try:
        group = own_group() / f"warrener-test-{os.getpid()}"
    except NoControlGroup:
        return None
    return group if os.access(group.parent, os.W_OK) and (group.parent / "cgroup.stat").exists() else None


@pytest.mark.skipif(group_to_make() is None, reason="this machine lets us make no control group")
async def test_a_control_group_kills_even_what_has_lost_its_parents_and_left_its_session() -> None:
    """What no look at the tree of processes could find."""
    folder = group_to_make()
    assert folder is not None
    group = Cgroup(folder)
    try:
        script = "read go; (setsid sleep 600 &); exit 1"
        process = await asyncio.create_subprocess_exec("sh", "-c", script, stdin=asyncio.subprocess.PIPE)
        group.limit(Limits(memory="1GiB", processes=5))
        group.add(process.pid)
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        assert await process.wait() == 1
        orphans = group.members()
        assert orphans
        assert group.oom_kills() == 0
        group.kill()
        await until_gone(orphans)
    finally:
        group.kill()
        await asyncio.to_thread(group.remove)
    assert not await asyncio.to_thread(folder.exists)


async def test_nothing_is_left_of_a_program_whose_control_group_refuses_its_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class RefusingGroup(Cgroup):
        def limit(self, limits: Limits) -> None:
            raise OSError(errno.EINVAL, "memory.max")

    monkeypatch.setattr(isolated, "new_group", lambda: RefusingGroup(tmp_path / "executor"))
    started: list[asyncio.subprocess.Process] = []
    start = asyncio.create_subprocess_exec

    async def start_and_note(*arguments: Any, **options: Any) -> asyncio.subprocess.Process:
        started.append(process := await start(*arguments, **options))
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start_and_note)
    agent = Agent()
    agent.command("it", Program(["true"]), result=None)
    assert "memory.max" in (await failed(agent, "it")).message
    assert [process.returncode for process in started] == [-signal.SIGKILL]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become somebody else")
async def test_a_handler_may_run_as_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(Path(__file__).parents[1]), *sys.path])
    trial = await run(load_agents(["nobody_handlers"]), "is_nobody")
    assert trial.error is None, trial.error
    uid, groups, name = trial.result
    assert uid != 0
    assert (groups, name) == ([], "nobody")


async def test_an_unavailable_user_is_named_and_no_other_user_runs_it(agent: Agent) -> None:
    error = await failed(agent, "is_no_one")
    assert "no-such-user-here" in error.message


async def test_a_job_type_whose_processes_die_too_often_is_held_and_others_are_not(
    stage: Stage, agent: Agent
) -> None:
    clock, pause = HastenedClock(), timedelta(minutes=20)
    await stage.enter(
        agent,
        clock=clock,
        agent_claim_ttl=7200.0,
        agent_crash_loop_limit=2,
        agent_crash_loop_window=3600.0,
        agent_crash_loop_pause=pause.total_seconds(),
    )
    for _ in range(3):
        await stage.fail("dies", {"how": "7"})
    job = await stage.dispatch("dies", {"how": "7"})
    assert (await stage.succeed("recycled", {})).result
    assert not stage.of(AttemptFailed, job)
    held = clock.now()
    clock.skip(pause)
    error = (await stage.wait_for_event(AttemptFailed, job)).data
    assert error.started_at > held, "it was not begun before the type was free again"


def test_a_control_group_gets_the_limits_and_counts_kills(tmp_path: Path) -> None:
    group = Cgroup(tmp_path / "executor")
    for name in ("memory.max", "memory.oom.group", "pids.max", "cgroup.kill"):
        (tmp_path / "executor" / name).touch()
    (tmp_path / "executor" / "memory.events").write_text("low 0\nmax 7\noom 1\noom_kill 2\n")
    group.limit(Limits(memory="1MiB"))
    group.add(os.getpid())
    group.kill()
    result = {file.name: file.read_text() for file in (tmp_path / "executor").iterdir()}
    assert (result["memory.max"], result["pids.max"], result["cgroup.kill"]) == (str(MIB), "max", "1")
    assert group.members() == [os.getpid()]
    assert group.oom_kills() == 2


# -- processor time, and not the ticks that found a handler running -------------------------------------


STORY = """
import json, resource, signal, sys, time
from warrener_agent.executors.sandbox import apply_limits

struck = []
signal.signal(signal.SIGXCPU, lambda *_: struck.append(time.process_time()))

def use(seconds):
    until = time.process_time() + seconds
    while time.process_time() < until and not struck:
        pass

used = []
for _ in range(3):
    began = time.process_time()
    with apply_limits([], 0.12):
        use(0.1)
    assert not struck, "it may use more"
    use(0.05)
    assert not struck, "it is over"
    with apply_limits([], 0.12):
        began = time.process_time()
        use(5)
    used.append(struck.pop() - began)
assert resource.getrlimit(resource.RLIMIT_CPU)[0] == resource.RLIM_INFINITY
print(json.dumps(used))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has timers of processor time")
def test_each_attempt_of_a_warm_child_has_all_of_its_time_and_no_second_more() -> None:
    used = json.loads(subprocess.check_output([sys.executable, "-c", STORY], timeout=60))
    assert len(used) == 3
    assert all(0.11 < seconds < 0.35 for seconds in used), used


def test_ticks_that_run_ahead_do_not_end_an_attempt_early() -> None:
    """On a busy machine a process that had used 1.2 s was charged 2.3 s, so that its third attempt of 1 s
    could use 0.7 s."""
    assert rlimit_cpu(1.0, used=2.3) >= 2.3 + 2
    assert rlimit_cpu(0.25) > 1
    assert rlimit_cpu(1.0, used=1.2, exact=True) == 3


# -- variables of the agent that reach a child process --------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "passes"),
    [
        ("PATH", "/usr/bin", True),
        ("PWD", "/home/shop", True),
        ("LC_TIME", "de_DE.UTF-8", True),
        ("PYTHONPATH", "/srv/shop", True),
        ("OMP_NUM_THREADS", "4", True),
        ("MONKEY", "x", False),
        ("WARRENER_BROKER_URL", "amqp://broker/", False),
        ("SLACK_WEBHOOK_URL", "https://hooks.example/T0/B0/x", False),
        ("AZURE_STORAGE_CONNECTION_STRING", "AccountKey=x", False),
        ("SSH_AUTH_SOCK", "/tmp/agent", False),
        ("AWS_SECRET_ACCESS_KEY", "x", False),
    ],
)
def test_a_variable_is_passed_on_if_it_is_known_or_named(name: str, value: str, passes: bool) -> None:  # noqa: FBT001 - a table
    assert filter_environment({name: value}, ()) == ({name: value} if passes else {})
    assert filter_environment({name: value}, (name,)) == {name: value}
    assert filter_environment({name: value}, (f"{name[:3]}*",)) == {name: value}


def test_the_trace_that_an_agent_was_started_in_is_not_that_of_its_attempts() -> None:
    assert filter_environment(dict.fromkeys(TRACE_VARIABLES, "x"), ()) == {}


async def test_processor_time_of_earlier_attempts_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = iter([50.0, 50.5, 53.0])

    def used(_: object) -> Usage:
        return Usage(1, 1, 0, next(seen))

    monkeypatch.setattr(executor_limits, "_CHECK_INTERVAL", 0.0)
    monkeypatch.setattr(executor_limits, "usage", used)
    raised = await executor_limits.wait_until_exceeded(Limits(cpu="1s"), lambda: [1])
    assert (raised.error.type, list(seen)) == ("CpuTimeLimit", [])
