"""The error types of processes that end or exceed a limit, and faults that count against a job type."""

import signal

import pytest

from warrener_agent import Limits
from warrener_agent.decisions.errors import (
    HandlerRaised,
    HandlerReturned,
    describe_crash,
    describe_error,
    find_exceeded_limit,
    is_fault,
    relabel_memory_error,
)

MIB = 1 << 20


@pytest.mark.parametrize(
    ("code", "oom_killed", "limits", "kind"),
    [
        (-signal.SIGKILL, True, Limits(), "OutOfMemory"),
        (-signal.SIGKILL, False, Limits(), "SIGKILL"),
        (-signal.SIGXCPU, False, Limits(cpu=1), "CpuTimeLimit"),
        (-signal.SIGXCPU, False, Limits(), "SIGXCPU"),
        (-signal.SIGXFSZ, False, Limits(file_size=1), "FileSizeLimit"),
        (-signal.SIGSEGV, True, Limits(), "SIGSEGV"),
        (-(signal.SIGRTMIN + 5), False, Limits(), f"SIG{signal.SIGRTMIN + 5}"),
        (9, False, Limits(), "ExitCode"),
        (None, False, Limits(), "Gone"),
        (None, True, Limits(), "OutOfMemory"),
    ],
)
def test_each_way_a_process_ends_has_its_error_type(
    *, code: int | None, oom_killed: bool, limits: Limits, kind: str
) -> None:
    error = describe_crash("it to go on", code, limits, None, oom_killed=oom_killed).error
    assert (error.kind, error.type) == ("crash", kind)


def test_a_limit_that_was_declared_is_no_fault_of_the_process() -> None:
    limits = Limits(memory="1GiB", cpu="1m")
    killed = describe_crash("it to go on", -signal.SIGKILL, Limits(), None, oom_killed=True)
    assert is_fault(killed, Limits())
    assert not is_fault(killed, limits)
    assert not is_fault(describe_crash("it to go on", -signal.SIGXCPU, limits, None), limits)
    assert is_fault(describe_crash("it to go on", -signal.SIGSEGV, limits, None), limits)


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
        assert exceeded.error.type == kind
    assert find_exceeded_limit(Limits(), memory=1 << 50, cpu_seconds=1e9, processes=10_000) is None
