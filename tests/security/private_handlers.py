"""Job types with encrypted payloads. Each of their values holds a word that nobody without a key may see."""

from warrener_agent import Agent, Fail, JobContext, Workflow

agent = Agent()


@agent.job("mail.send", encrypted=True)
async def send(job: JobContext, to: str) -> str:
    """Saves a checkpoint, requests a child job, and returns."""
    if job.attempt == 1:
        job.checkpoint({"sent": f"checkpoint-{to}"})
        raise ValueError(f"error-{to}")
    assert job.last_checkpoint == {"sent": f"checkpoint-{to}"}
    job.request("mail.note", {"text": f"child-{to}"}, key="note")
    return f"result-{to}"


@agent.job("mail.note", encrypted=True)
async def note(text: str) -> str:
    return f"noted-{text}"


@agent.job("mail.fail", encrypted=True, max_attempts=1)
async def fail(to: str) -> None:
    raise Fail(f"error-{to}")


@agent.job("mail.plain")
async def plain(to: str = "") -> str:
    return f"plain-{to}"


async def stamp(text: str) -> str:
    return f"stamped-{text}"


@agent.workflow("mail.campaign", encrypted=True, max_attempts=1)
async def campaign(flow: Workflow, to: str, *, fails: bool = False) -> list[str | None]:
    """Calls in each of the ways, and waits for a signal before it ends."""
    noted = await flow.undo(note, text=f"undone-{to}").call(note, text=f"part-{to}")
    stamped = await flow.step(stamp, to)
    mapped = await flow.map(note, [{"text": f"item-{number}-{to}"} for number in range(2)])
    approved = await flow.receive("approved", str)
    if fails:
        raise Fail(f"failure-{to}")
    return [noted, stamped, *mapped.results, approved]
