"""What is decided about processes of attempts, without any: their ends, their environment, their restarts."""

import os
import signal
from pathlib import Path

import pytest

from warrener_agent import Limits, Recycle
from warrener_agent.executors.cgroup import Cgroup
from warrener_agent.executors.death import Death, breach_of, by_limit, died, is_fault
from warrener_agent.executors.environment import passed_on
from warrener_agent.executors.failure import failure
from warrener_agent.executors.port import Raised, Returned
from warrener_agent.executors.restarts import Intensity, Restarts, TypesHeld
from warrener_runtime.virtual_clock import VirtualClock

MIB = 1 << 20


@pytest.mark.parametrize(
    ("death", "limits", "kind"),
    [
        (Death(-signal.SIGKILL, oom_killed=True), Limits(), "OutOfMemory"),
        (Death(-signal.SIGKILL), Limits(), "SIGKILL"),
        (Death(-signal.SIGXCPU), Limits(cpu=1), "CpuTimeLimit"),
        (Death(-signal.SIGXCPU), Limits(), "SIGXCPU"),
        (Death(-signal.SIGXFSZ), Limits(file_size=1), "FileSizeLimit"),
        (Death(-signal.SIGSEGV, oom_killed=True), Limits(), "SIGSEGV"),
        (Death(-(signal.SIGRTMIN + 5)), Limits(), f"SIG{signal.SIGRTMIN + 5}"),
        (Death(9), Limits(), "ExitCode"),
        (Death(None), Limits(), "Gone"),
        (Death(None, oom_killed=True), Limits(), "OutOfMemory"),
    ],
)
def test_the_way_a_process_died_is_told_apart(death: Death, limits: Limits, kind: str) -> None:
    error = died("it to go on", death, limits, None).error
    assert (error.kind, error.type) == ("crash", kind)


def test_a_limit_that_was_declared_is_no_fault_of_the_process() -> None:
    limits = Limits(memory="1GiB", cpu="1m")
    killed = died("it to go on", Death(-signal.SIGKILL, oom_killed=True), Limits(), None)
    assert is_fault(killed, Limits())
    assert not is_fault(killed, limits)
    assert not is_fault(died("it to go on", Death(-signal.SIGXCPU), limits, None), limits)
    assert is_fault(died("it to go on", Death(-signal.SIGSEGV), limits, None), limits)


def test_a_memory_error_is_out_of_memory_only_where_memory_is_limited() -> None:
    raised = failure(MemoryError("no more"))
    assert by_limit(raised, Limits()) is raised
    told = by_limit(raised, Limits(memory="1MiB"))
    assert isinstance(told, Raised)
    assert (told.error.type, told.error.kind) == ("OutOfMemory", "error")
    returned = Returned("1")
    assert by_limit(returned, Limits(memory="1MiB")) is returned


def test_what_is_used_together_is_held_against_each_limit() -> None:
    limits = Limits(memory="100MiB", cpu="2s", processes=3)
    used = {"memory": 100 * MIB, "cpu_seconds": 2.9, "processes": 3}
    assert breach_of(limits, **used) is None  # type: ignore[arg-type]  # integers and a float by name
    for name, value, kind in (
        ("memory", 101 * MIB, "OutOfMemory"),
        ("cpu_seconds", 3.1, "CpuTimeLimit"),
        ("processes", 4, "ProcessLimit"),
    ):
        breach = breach_of(limits, **{**used, name: value})  # type: ignore[arg-type]  # as above
        assert breach is not None
        assert breach.type == kind
    assert breach_of(Limits(), memory=1 << 50, cpu_seconds=1e9, processes=10_000) is None


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
    assert passed_on({name: value}, ()) == ({name: value} if passes else {})
    assert passed_on({name: value}, (name,)) == {name: value}


async def test_a_type_that_dies_too_often_is_held_and_then_tried_again() -> None:
    clock = VirtualClock()
    restarts = Restarts(clock, Intensity(deaths=2, within=10, hold=30))
    for _ in range(2):
        restarts.died("bad")
        await clock.advance(1)
    restarts.died("other")
    assert not restarts.holds("bad")
    await restarts.check()
    restarts.died("bad")
    assert restarts.holds("bad")
    assert not restarts.holds("other")
    with pytest.raises(TypesHeld, match="bad"):
        await restarts.check()
    await clock.advance(30)
    assert not restarts.holds("bad")
    await restarts.check()


async def test_deaths_that_are_far_apart_hold_nothing() -> None:
    clock = VirtualClock()
    restarts = Restarts(clock, Intensity(deaths=2, within=10, hold=30))
    for _ in range(9):
        restarts.died("now and then")
        await clock.advance(6)
        assert not restarts.holds("now and then")


def test_a_control_group_is_told_the_limits_and_asked_for_kills(tmp_path: Path) -> None:
    group = Cgroup(tmp_path / "executor")
    for name in ("memory.max", "memory.oom.group", "pids.max", "cgroup.kill"):
        (tmp_path / "executor" / name).touch()
    (tmp_path / "executor" / "memory.events").write_text("low 0\nmax 7\noom 1\noom_kill 2\n")
    group.limit(Limits(memory="1MiB"))
    group.add(os.getpid())
    group.kill()
    told = {file.name: file.read_text() for file in (tmp_path / "executor").iterdir()}
    assert (told["memory.max"], told["pids.max"], told["cgroup.kill"]) == (str(MIB), "max", "1")
    assert group.members() == [os.getpid()]
    assert group.oom_kills() == 2
