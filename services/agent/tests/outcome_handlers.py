"""Handlers that say what shall become of their job, by raising it and by returning it, wherever they run."""

from warrener_agent import Agent, Backoff, Cancel, Fail, JobContext, RetryAfter, Snooze

agent = Agent()
runs: list[int] = []


def outcome_exception(how: str) -> Fail | RetryAfter | Snooze | Cancel:
    match how:
        case "fail":
            return Fail("the account is closed")
        case "retry":
            return RetryAfter("5m", "the bank is closed")
        case "snooze":
            return Snooze("10m", "the file is not there yet")
        case _:
            return Cancel("the order was taken back")


class Closed(OSError):
    """An error of a family."""


async def note(job: JobContext) -> None:
    runs.append(job.attempt)
    transaction = await job.transaction()
    await transaction.execute("CREATE TABLE effects (note TEXT)")
    job.request("never")


@agent.job("coroutine")
async def in_a_coroutine(
    job: JobContext, how: str, *, raises: bool
) -> int | Snooze | Cancel | RetryAfter | Fail:
    await note(job)
    if raises:
        raise outcome_exception(how)
    return outcome_exception(how)


@agent.job("thread")
def in_a_thread(how: str, *, raises: bool) -> Snooze | Cancel | RetryAfter | Fail:
    if raises:
        raise outcome_exception(how)
    return outcome_exception(how)


@agent.job("process", executor="process")
def in_a_child(how: str, *, raises: bool) -> str | Snooze | Cancel | RetryAfter | Fail | None:
    if raises:
        raise outcome_exception(how)
    return outcome_exception(how)


@agent.job("named", retry_on=(OSError, "*.Shy"), no_retry_on=(Closed, "Time*"), backoff=Backoff.fixed("30s"))
async def named(how: str) -> None:
    errors: dict[str, Exception] = {
        "reset": ConnectionResetError(),
        "closed": Closed(),
        "time": TimeoutError(),
        "key": KeyError(),
        "shy": Shy(),
        "later": RetryAfter(5),
        "fail": Fail(),
    }
    raise errors[how]


class Shy(Exception):
    """Known by its name alone."""


@agent.job("named.process", executor="process", no_retry_on=(OSError,))
def named_in_a_child() -> None:
    raise Closed
