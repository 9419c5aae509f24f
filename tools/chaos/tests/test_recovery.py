"""Recovery: back at half of the former rate, and the last job that a fault touched."""

from tools.chaos.history import Ending, FaultFact, History, Request
from tools.chaos.recovery import recoveries, summaries

FAULT = FaultFact(1, "broker killed", "", begun=20.0, ended=25.0, in_flight=4)
# Ten jobs a second end, none from 20 to 28, ten a second from then on.
TIMES = [n / 10 for n in range(200)] + [28 + n / 10 for n in range(100)]


def history(last: float | None = 31.0) -> History:
    ends = [Ending(f"job-{n}", "running", "succeeded", at) for n, at in enumerate(TIMES)]
    touched = Request("touched", "chaos.short", 19.0, "succeeded")
    slow = Request("slow", "chaos.long", 19.0, "succeeded", plain=False)
    more = [] if last is None else [Ending("touched", "running", "succeeded", last)]
    return History(requests=[touched, slow], endings=[*ends, *more])


def test_the_rate_is_back_when_jobs_end_at_half_of_it() -> None:
    (found,) = recoveries(history(), [FAULT])
    assert found.rate == 2.4, "from 27.4 on a second has five of them"


def test_the_last_job_that_was_requested_before_counts_and_long_ones_do_not() -> None:
    (found,) = recoveries(history(), [FAULT])
    assert (found.last_job, found.touched) == (6.0, 1)


def test_a_job_that_never_ended_leaves_the_recovery_unknown() -> None:
    (found,) = recoveries(history(last=None), [FAULT])
    assert found.last_job is None
    (kind,) = summaries([found])
    assert (kind.last_job_p50, kind.last_job_max) == (None, None)


def test_a_fault_that_nobody_notices_has_no_recovery_time() -> None:
    unnoticed = FaultFact(1, "messages replayed", "", begun=10.0, ended=10.1)
    (found,) = recoveries(history(), [unnoticed])
    assert found.rate == 0.0


def test_a_kind_is_summed_up_by_median_and_maximum() -> None:
    again = FaultFact(2, "broker killed", "", begun=20.0, ended=27.0, in_flight=8)
    (kind,) = summaries(recoveries(history(), [FAULT, again]))
    assert (kind.faults, kind.in_flight) == (2, 6)
    assert (kind.rate_max, kind.last_job_p50, kind.last_job_max) == (2.4, 5.0, 6.0)
