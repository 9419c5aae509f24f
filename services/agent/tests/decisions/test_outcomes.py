"""Exceptions by which a handler controls its job, rules about errors, and the error types of processes."""

import signal
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from services.agent.tests.executors.test_executors import no_effects
from services.agent.tests.stage import Stage

from warrener_agent import Agent, Backoff, JobDefinitionError, Limits
from warrener_agent.decisions import errors, outcomes
from warrener_agent.ledger.port import ChildJobRequest, Claim, ClaimResult, ClaimStatus
from warrener_agent.testing import run, temporary_ledger
from warrener_contracts.events import (
    AttemptCancelled,
    AttemptFailed,
    Call,
    CallKind,
    ErrorInfo,
    Event,
    Suspension,
)
from warrener_contracts.retryability import is_unrunnable_here

HERE = Path(__file__).parents[1]
EXECUTORS = ["coroutine", "thread", "process"]


@pytest.fixture
def agent(load_handlers: Callable[[str], Agent]) -> Agent:
    return load_handlers("outcome_handlers")


@pytest.mark.parametrize("raises", [True, False], ids=["raised", "returned"])
@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize(
    ("how", "retryable", "delay", "handler_signal", "message"),
    [
        ("fail", False, None, None, "the account is closed"),
        ("retry", True, 300, None, "the bank is closed"),
        ("snooze", True, 600, "snoozed", "the file is not there yet"),
        ("cancel", False, None, "cancelled", "the order was taken back"),
    ],
)
async def test_an_outcome_exception_means_the_same_raised_and_returned_in_every_executor(
    agent: Agent,
    *,
    executor: str,
    raises: bool,
    how: str,
    retryable: bool,
    delay: Any,
    handler_signal: Any,
    message: str,
) -> None:
    async with temporary_ledger() as ledger:
        trial = await run(agent, executor, {"how": how, "raises": raises}, ledger=ledger)
        assert await no_effects(ledger)
    assert trial.error is not None
    assert (trial.error.retryable, trial.retry_after_seconds, trial.handler_signal) == (
        retryable,
        delay,
        handler_signal,
    )
    assert trial.error.message == message
    assert (trial.error.stack is not None) is raises, "what is returned was raised by nobody"
    assert not trial.child_jobs


def test_what_may_be_returned_in_place_of_a_result_is_no_part_of_it(agent: Agent) -> None:
    results = {name: kind.declaration.result_schema for name, kind in agent.definitions.items()}
    assert results["coroutine"] == {"type": "integer"}
    assert results["thread"] == {"type": "null"}
    assert results["process"] == {"anyOf": [{"type": "string"}, {"type": "null"}]}


@pytest.mark.parametrize(
    ("how", "kind", "reported"),
    [
        ("snooze", AttemptFailed, {"snoozed": True, "retry_after_seconds": 600}),
        ("cancel", AttemptCancelled, {"by_handler": True, "reason": "the order was taken back"}),
    ],
)
async def test_a_snooze_and_a_cancel_are_reported_and_recorded(
    stage: Stage, agent: Agent, how: str, kind: type[Event[Any]], reported: dict[str, Any]
) -> None:
    await stage.enter(agent)
    arguments = {"how": how, "raises": how == "cancel"}
    job = await stage.dispatch("coroutine", arguments)
    first = await stage.wait_for_event(kind, job)
    assert {name: getattr(first.data, name) for name in reported} == reported
    await stage.dispatch("coroutine", arguments, job_id=job)
    assert (await stage.wait_for_event(kind, job, times=2)).data == first.data
    assert sys.modules["outcome_handlers"].runs == [1], "its dispatch, come again, is answered and not run"


def test_a_recorded_suspension_is_read_as_it_was() -> None:
    now = datetime(2026, 11, 27, 12, tzinfo=UTC)
    suspension = Suspension(calls=(Call(call_id="a", kind=CallKind.STEP, name="a"),))
    message = ChildJobRequest("", b'{"id": "\xc3\xa9"}')
    outcome = outcomes.SuspendedOutcome(suspension, (message,))
    failure = outcomes.failure_to_record(Claim(UUID(int=1), 2), outcome, now, now)
    found = outcomes.recorded_failure(ClaimResult(ClaimStatus.FAILED, failure=failure))
    assert found == outcomes.SuspendedOutcome(suspension, outcome.messages, failure)
    assert outcomes.outcome_word(found) == "suspended"
    error = ErrorInfo.model_validate(failure.details["error"])
    assert is_unrunnable_here(error), "an agent that knows no workflows gives the attempt back"


# -- errors by class and by name ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "retryable", "no_retry_by_policy"),
    [
        ("reset", True, False),  # derives from OSError
        ("closed", False, True),  # so does this, and no_retry_on counts before retry_on
        ("time", False, True),
        ("key", False, True),
        ("shy", True, False),
        ("later", True, False),
        ("fail", False, False),
    ],
)
async def test_an_error_is_judged_by_its_class_its_bases_and_their_names(
    agent: Agent, *, how: str, retryable: bool, no_retry_by_policy: bool
) -> None:
    error = (await run(agent, "named", {"how": how})).error
    assert error is not None
    assert (error.retryable, error.no_retry_by_policy) == (retryable, no_retry_by_policy)
    if how == "reset":
        assert error.type == "ConnectionResetError"
        assert error.base_classes == ("ConnectionError", "OSError", "Exception")


async def test_a_child_process_judges_alike(agent: Agent) -> None:
    error = (await run(agent, "named.process")).error
    assert error is not None
    assert (error.type, error.retryable, error.no_retry_by_policy) == ("outcome_handlers.Closed", False, True)


def test_the_declaration_names_them_so_that_a_supervisor_can_judge_every_language(agent: Agent) -> None:
    policy = agent.definitions["named"].declaration.policy
    assert policy.retry_on == ("OSError", "*.Shy")
    assert policy.no_retry_on == ("outcome_handlers.Closed", "Time*")
    assert policy.backoff == Backoff.fixed("30s")
    (catch_all,) = _declared(no_retry_on=(BaseException,)).no_retry_on
    assert catch_all == "*"


def _declared(**options: Any) -> Any:
    one = Agent()

    @one.job("some.job", **options)
    def handler() -> None: ...

    return one.definitions["some.job"].declaration.policy


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"retry_on": ValueError}, "expected retry_on as a tuple of exception classes or names, got <class"),
        ({"no_retry_on": "ValueError"}, "expected no_retry_on as a tuple .* got 'ValueError'"),
        (
            {"no_retry_on": (ValueError, 7)},
            "expected exception classes or names such as .* in no_retry_on, got 7",
        ),
        ({"no_retry_on": (int,)}, "in no_retry_on, got <class 'int'>"),
        ({"retry_on": ("",)}, "retry_on.0: String should have at least 1 character, got ''"),
        ({"max_attemps": 3}, "expected options among backoff, .* got max_attemps"),
        ({"max_age": "soon"}, "max_age: expected a duration .*, got 'soon'"),
        ({"backoff": {"step": "1s", "delays": ["1s"]}}, "backoff: expected step .* or delays .*, got both"),
    ],
    ids=str,
)
def test_a_policy_is_checked_where_it_is_declared(options: dict[str, Any], message: str) -> None:
    with pytest.raises(JobDefinitionError, match=f"some.job: .*{message}"):
        _declared(**options)


# -- processes that end or exceed a limit ---------------------------------------------------------------


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
    error = errors.describe_crash("it to go on", code, limits, None, oom_killed=oom_killed).error
    assert (error.kind, error.type) == ("crash", kind)


def test_a_limit_that_was_declared_is_no_fault_of_the_process() -> None:
    limits = Limits(memory="1GiB", cpu="1m")
    killed = errors.describe_crash("it to go on", -signal.SIGKILL, Limits(), None, oom_killed=True)
    assert errors.is_fault(killed, Limits())
    assert not errors.is_fault(killed, limits)
    assert not errors.is_fault(errors.describe_crash("it to go on", -signal.SIGXCPU, limits, None), limits)
    assert errors.is_fault(errors.describe_crash("it to go on", -signal.SIGSEGV, limits, None), limits)


def test_a_memory_error_is_out_of_memory_only_where_memory_is_limited() -> None:
    raised = errors.describe_error(MemoryError("none is left"))
    assert errors.relabel_memory_error(raised, Limits()) is raised
    result = errors.relabel_memory_error(raised, Limits(memory="1MiB"))
    assert isinstance(result, errors.HandlerRaised)
    assert (result.error.type, result.error.kind) == ("OutOfMemory", "error")
    returned = errors.HandlerReturned("1")
    assert errors.relabel_memory_error(returned, Limits(memory="1MiB")) is returned


def test_what_is_used_together_is_held_against_each_limit() -> None:
    limits = Limits(memory="100MiB", cpu="2s", processes=3)
    used = {"memory": 100 * MIB, "cpu_seconds": 2.9, "processes": 3}
    assert errors.find_exceeded_limit(limits, **used) is None  # type: ignore[arg-type]  # integers and a float by name
    exceeding = ("memory", 101 * MIB, "OutOfMemory"), ("cpu_seconds", 3.1, "CpuTimeLimit")
    for name, value, kind in (*exceeding, ("processes", 4, "ProcessLimit")):
        exceeded = errors.find_exceeded_limit(limits, **{**used, name: value})  # type: ignore[arg-type]  # as above
        assert exceeded is not None
        assert exceeded.error.type == kind
    assert errors.find_exceeded_limit(Limits(), memory=1 << 50, cpu_seconds=1e9, processes=10_000) is None
