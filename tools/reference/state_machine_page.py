"""`docs/journey-of-a-job.md`: the chart and the table of the state machine."""

from collections.abc import Iterator

from tools.reference import GENERATED

from warrener_contracts.state_machine import (
    ATTEMPT_SIGNALS,
    LATE_SUCCESS,
    STALE,
    STATE_MACHINE,
    TERMINAL,
    UNKNOWN_ATTEMPT,
    Effect,
    Ignore,
    JobState,
    Reject,
    Signal,
    Transition,
)

_BROUGHT_BY = {
    Signal.REQUESTED: "`job.requested` again",
    Signal.DUE: "the scheduler's clock; for delays beyond the longest level the supervisor's",
    Signal.CANCEL_REQUESTED: "`job.cancel_requested`",
    Signal.DEADLINE_PASSED: "`job.deadline_passed`, from the watchdog",
    Signal.START_TIMED_OUT: "`attempt.start_timed_out`, from the watchdog",
    Signal.ALIVE: "`attempt.started`, `attempt.progressed`, or listed in `agent.heartbeat`",
    Signal.SUCCEEDED: "`attempt.succeeded`",
    Signal.FAILED: "`attempt.failed`",
    Signal.SUSPENDED: "`attempt.suspended`",
    Signal.SNOOZED: "`attempt.failed` with `snoozed`",
    Signal.STOPPED: "`attempt.cancelled`",
    Signal.WITHDRAWN: "`attempt.cancelled` with `by_handler`",
    Signal.RELEASED: "`attempt.released`",
    Signal.TIMED_OUT: "`attempt.timed_out`, from the watchdog",
    Signal.LOST: "`attempt.lost`, from the watchdog or for a dispatch that the broker gave up",
}

_HEAD = f"""{GENERATED}
# The journey of a job

Every job is in one of nine states; the last four are terminal and are never left. A *signal* may change
it. For every state and every signal the table below has a transition, a reason to ignore the signal, or
*impossible*. An impossible signal means that something is broken: its message is parked and an alarm is
raised.

"""

_FENCE = """## The fence

A signal about an attempt (marked *attempt* below) is first compared with the job's current attempt. The
number of the attempt is the fencing token: only the supervisor makes the next one, and it records it before
it dispatches it.

| the signal is about | then |
|---|---|
| an older attempt that has succeeded, while the job is not over | {late} |
| an older attempt in every other way | {older} |
| the current attempt | the table below decides |
| a newer attempt | {newer} |

So the scheduler and the supervisor mark the row of a job before they publish its dispatch: a report of an
agent about an attempt finds that attempt in the store.
"""


def state_machine_page() -> str:
    """The whole page as Markdown."""
    return "\n".join(_lines()).rstrip() + "\n"


def _lines() -> Iterator[str]:
    yield _HEAD.rstrip()
    yield ""
    yield "```mermaid"
    yield "stateDiagram-v2"
    yield "    [*] --> waiting: requested, and it must wait"
    yield "    [*] --> queued: requested"
    for (state, signal), step in STATE_MACHINE.items():
        if isinstance(step, Transition):
            for target in step.states:
                yield f"    {state} --> {target}: {signal}"
    for state in _in_order(TERMINAL):
        yield f"    {state} --> [*]"
    yield "```"
    yield ""
    yield "## The signals"
    yield ""
    yield "| signal | | brought by |"
    yield "|---|---|---|"
    for signal in Signal:
        yield f"| `{signal}` | {'attempt' if signal in ATTEMPT_SIGNALS else 'job'} | {_BROUGHT_BY[signal]} |"
    yield ""
    yield _FENCE.format(
        late=f"→ `succeeded`: {LATE_SUCCESS.why}",
        older=f"ignored: {STALE.why}",
        newer=f"**impossible**: {UNKNOWN_ATTEMPT.why}",
    ).rstrip()
    yield ""
    yield f"## Every pair ({len(STATE_MACHINE)})"
    yield ""
    yield "| state | signal | what happens | why |"
    yield "|---|---|---|---|"
    for state in JobState:
        for signal in Signal:
            step = STATE_MACHINE[state, signal]
            undoes = isinstance(step, Transition) and JobState.SUSPENDED in step.states[1:]
            yield f"| `{state}` | `{signal}` | {_step(step)}{'¹' if undoes else ''} | {step.why} |"
    yield ""
    yield "¹ A workflow is `suspended` first, until its calls are undone; then it comes to the other end."


def _in_order(states: frozenset[JobState]) -> list[JobState]:
    return [state for state in JobState if state in states]


def _step(step: Effect) -> str:
    match step:
        case Transition(states):
            return "→ " + " or ".join(f"`{state}`" for state in states)
        case Ignore():
            return "ignored"
        case Reject():
            return "**impossible**"
