"""Decisions about processes, without any: ends, limits, environment, restarts."""

import os
import signal
from pathlib import Path

import pytest

from warrener_agent import Limits, Recycle
from warrener_agent.decisions.errors import (
    ExitInfo,
    HandlerRaised,
    HandlerReturned,
    describe_crash,
    describe_error,
    find_exceeded_limit,
    is_fault,
    relabel_memory_error,
)
from warrener_agent.executors.environment import filter_environment
from warrener_agent.executors.limits import Cgroup
from warrener_agent.executors.restarts import JobTypesSuspended, RestartLimit, Restarts
from warrener_runtime.virtual_clock import VirtualClock

MIB = 1 << 20


@pytest.mark.parametrize(
    ("exit_info", "limits", "kind"),
    [
        (ExitInfo(-signal.SIGKILL, oom_killed=True), Limits(), "OutOfMemory"),
        (ExitInfo(-signal.SIGKILL), Limits(), "SIGKILL"),
        (ExitInfo(-signal.SIGXCPU), Limits(cpu=1), "CpuTimeLimit"),
        (ExitInfo(-signal.SIGXCPU), Limits(), "SIGXCPU"),
        (ExitInfo(-signal.SIGXFSZ), Limits(file_size=1), "FileSizeLimit"),
        (ExitInfo(-signal.SIGSEGV, oom_killed=True), Limits(), "SIGSEGV"),
        (ExitInfo(-(signal.SIGRTMIN + 5)), Limits(), f"SIG{signal.SIGRTMIN + 5}"),
        (ExitInfo(9), Limits(), "ExitCode"),
        (ExitInfo(None), Limits(), "Gone"),
        (ExitInfo(None, oom_killed=True), Limits(), "OutOfMemory"),
    ],
)
def test_each_way_a_process_ends_has_its_error_type(exit_info: ExitInfo, limits: Limits, kind: str) -> None:
    error = describe_crash("it to go on", exit_info, limits, None).error
    assert (error.kind, error.type) == ("crash", kind)


def test_a_limit_that_was_declared_is_no_fault_of_the_process() -> None:
    limits = Limits(memory="1GiB", cpu="1m")
    killed = describe_crash("it to go on", ExitInfo(-signal.SIGKILL, oom_killed=True), Limits(), None)
    assert is_fault(killed, Limits())
    assert not is_fault(killed, limits)
    assert not is_fault(describe_crash("it to go on", ExitInfo(-signal.SIGXCPU), limits, None), limits)
    assert is_fault(describe_crash("it to go on", ExitInfo(-signal.SIGSEGV), limits, None), limits)


def test_a_memory_error_is_out_of_memory_only_where_memory_is_limited() -> None:
    raised = describe_error(MemoryError("no more"))
    assert relabel_memory_error(raised, Limits()) is raised
    result = relabel_memory_error(raised, Limits(memory="1MiB"))
    assert isinstance(result, HandlerRaised)
    assert (result.error.type, result.error.kind) == ("OutOfMemory", "error")
    returned = HandlerReturned("1")
    assert relabel_memory_error(returned, Limits(memory="1MiB")) is returned


def test_what_is_used_together_is_held_against_each_limit() -> None:
    limits = Limits(memory="100MiB", cpu="2s", processes=3)
    used = {"memory": 100 * MIB, "cpu_seconds": 2.9, "processes": 3}
    assert find_exceeded_limit(limits, **used) is None  # type: ignore[arg-type]  # integers and a float by name
    for name, value, kind in (
        ("memory", 101 * MIB, "OutOfMemory"),
        ("cpu_seconds", 3.1, "CpuTimeLimit"),
        ("processes", 4, "ProcessLimit"),
    ):
        exceeded = find_exceeded_limit(limits, **{**used, name: value})  # type: ignore[arg-type]  # as above
        assert exceeded is not None
        assert exceeded.type == kind
    assert find_exceeded_limit(Limits(), memory=1 << 50, cpu_seconds=1e9, processes=10_000) is None


def test_a_child_has_had_its_time_after_so_many_jobs_or_with_so_much_memory() -> None:
    recycle = Recycle(jobs=3, memory="10MiB")
    assert not recycle.is_due(2, 10 * MIB - 1)
    assert recycle.is_due(3, 0)
    assert recycle.is_due(0, 10 * MIB)
    with pytest.raises(ValueError, match="1 job"):
        Recycle(jobs=0)


@pytest.mark.parametrize(
    ("name", "value", "passes"),
    [
        ("PATH", "/bin", True),
        ("PWD", "/home/shop", True),
        ("MONKEY", "x", True),
        ("KEYBOARD", "de", True),
        ("TOKENIZERS_PARALLELISM", "false", True),
        ("WARRENER_BROKER_URL", "amqp://warren:rabbit@broker/", False),
        ("WARRENER_BROKER_URL", "amqp://broker/", True),
        ("PROXY", "http://proxy:3128/a:b@c", True),
        ("MYSQL_PWD", "x", False),
        ("SECRET_SAUCE", "x", False),
        ("aws_secret_access_key", "x", False),
        ("GOOGLE_APPLICATION_CREDENTIALS", "/x.json", False),
        ("STRIPE_KEY", "x", False),
        ("SENTRY_DSN", "x", False),
    ],
)
def test_what_looks_secret_is_not_passed_on_unless_it_is_named(name: str, value: str, passes: bool) -> None:  # noqa: FBT001 - a table
    assert filter_environment({name: value}, ()) == ({name: value} if passes else {})
    assert filter_environment({name: value}, (name,)) == {name: value}


async def test_a_type_that_dies_too_often_is_held_and_then_tried_again() -> None:
    clock = VirtualClock()
    restarts = Restarts(clock, RestartLimit(deaths=2, within=10, hold=30))
    for _ in range(2):
        restarts.record_crash("bad")
        await clock.advance(1)
    restarts.record_crash("other")
    assert not restarts.is_suspended("bad")
    await restarts.check()
    restarts.record_crash("bad")
    assert restarts.is_suspended("bad")
    assert not restarts.is_suspended("other")
    with pytest.raises(JobTypesSuspended, match="bad"):
        await restarts.check()
    await clock.advance(30)
    assert not restarts.is_suspended("bad")
    await restarts.check()


async def test_deaths_that_are_far_apart_hold_nothing() -> None:
    clock = VirtualClock()
    restarts = Restarts(clock, RestartLimit(deaths=2, within=10, hold=30))
    for _ in range(9):
        restarts.record_crash("now and then")
        await clock.advance(6)
        assert not restarts.is_suspended("now and then")


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
