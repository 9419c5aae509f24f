"""The Python of the guides declares what the text describes."""

import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from warrener_agent import Agent, Backoff, EarlierAttempt, Fail, History
from warrener_agent.testing import run, run_gathered, run_workflow
from warrener_contracts.canvas import ChainArguments, GroupArguments
from warrener_contracts.events import JobRequested

HOWTO = Path(__file__).parents[3] / "docs" / "howto"


def blocks(guide: str, language: str = "python") -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (HOWTO / guide).read_text("utf-8"), re.DOTALL)


def declared(block: str, module: str) -> Agent:
    guide: dict[str, Any] = {"__name__": module}
    exec(block, guide)
    agent = guide["agent"]
    assert isinstance(agent, Agent)
    return agent


async def test_the_handlers_of_the_guide_to_retries_do_what_it_describes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bank, _, memory, reports = blocks("choose-a-retry-policy.md")
    agent = declared(bank, "bank")
    policy = agent.definitions["bank.pay"].declaration.policy
    assert (policy.max_attempts, policy.max_age) == (8, timedelta(days=2))
    assert policy.backoff == Backoff.listed("5s", "1m", "15m", "6h")
    assert (policy.retry_on, policy.no_retry_on) == (
        ("OSError", "requests.*"),
        ("bank.Closed", "*.ProxyError"),
    )

    agent = declared(memory, "memory")
    rules = agent.definitions["report.build"].declaration.policy.retry_rules
    assert [(rule.after, rule.queue, rule.max_timeout, rule.another_agent) for rule in rules] == [
        (2, "high-memory", None, False),
        (1, None, timedelta(hours=4), False),
        (1, None, None, True),
    ]
    died = EarlierAttempt(attempt=1, cause="crash", error="OutOfMemory", queue="default")
    later = await run(agent, "report.build", {"month": "May"}, attempt=2, history=History(attempts=(died,)))
    assert later.result == "May in bites of 10000 rows"

    agent = declared(reports, "reports")
    monkeypatch.chdir(tmp_path)
    assert (await run(agent, "report.send", {"day": "monday"})).handler_signal == "snoozed"
    (tmp_path / "monday.csv").touch()
    assert (await run(agent, "report.send", {"day": "monday"})).handler_signal == "cancelled"
    (tmp_path / "monday.csv").write_text("a,b\n")
    assert (await run(agent, "report.send", {"day": "monday"})).result == 4


def test_the_guide_to_schedules_declares_what_it_describes() -> None:
    block = next(block for block in blocks("schedule-jobs.md") if "@agent.schedule" in block)
    (schedule,) = declared(block, "flights").schedules
    assert schedule.schedule.name == "flights.hourly"


def test_the_guide_to_imports_has_the_job_type_that_a_crontab_needs() -> None:
    (block,) = blocks("import-schedules.md")
    assert set(declared(block, "lines").definitions) == {"cron.line"}


async def test_the_guide_to_checkpoints_continues_where_the_last_attempt_stopped(tmp_path: Path) -> None:
    (block,) = blocks("save-a-checkpoint.md")
    (tmp_path / "rows.txt").write_text("row\n" * 420)
    agent = declared(block.replace('executor="process", ', ""), "files")
    trial = await run(agent, "files.import", {"path": str(tmp_path / "rows.txt")}, last_checkpoint=300)
    assert (trial.result, trial.checkpoints) == (420, [400])


async def test_the_guide_to_gathered_jobs_fails_the_one_with_a_bad_address() -> None:
    post, _ = blocks("run-many-jobs-in-one-call.md")
    mails = [{"to": to, "subject": "Hello"} for to in ("ada@example.org", "ada")]
    good, bad = await run_gathered(declared(post, "post"), "mail.send", mails)
    assert good.succeeded
    assert bad.error is not None
    assert (bad.error.message, bad.error.retryable) == ("550 ada", False)


def test_the_guide_to_workflows_runs_as_it_describes() -> None:
    cards, scales, quotes, imports, approvals, watchers, *more = blocks("write-a-workflow.md")
    trips, contracts, rates, shelves, weather, crates, _ = more
    printed = {"cards.print": "Dear Ada", "cards.post": 8}
    assert run_workflow(declared(cards, "cards"), "cards.send", {"name": "Ada"}, jobs=printed).result == 8

    refused = {"parcels.weigh": Fail("too heavy")}
    accepted = run_workflow(declared(scales, "scales"), "parcels.accept", {"parcel": 1}, jobs=refused)
    assert accepted.result.endswith(" is dead")

    agent, jobs = declared(quotes, "quotes"), {"quotes.weigh": 10, "quotes.get": price}
    given = {"parcel": 1, "carriers": ["dhl", "ox"]}
    assert run_workflow(agent, "quotes.cheapest", given, jobs=jobs).result == 20
    many = run_workflow(agent, "quotes.many", {"parcels": [1, 2]}, jobs=jobs)
    assert many.result == {"weighed": 2, "failed": 0, "grams": 20}

    listed = {"files.list": ["a", "bc"], "files.load": 2}
    assert run_workflow(declared(imports, "imports"), "files.import", {"day": "d"}, jobs=listed).result == 4

    agent = declared(approvals, "approvals")
    ignored = run_workflow(agent, "approvals.decide", {"amount": 1})
    approved = run_workflow(agent, "approvals.decide", {"amount": 1})
    ignored.advance("4d")
    assert ignored.result == "nobody has decided"
    approved.advance("1d")
    approved.send("approval", {"granted": True, "by": "Ada"})
    assert approved.result == "Ada"

    booked = {"trips.flight": "F7", "trips.hotel": "H7"}
    trip = run_workflow(declared(trips, "trips"), "trips.book", {"trip": 7}, jobs=booked)
    assert trip.result == ["F7", "H7"]
    assert run_workflow(declared(rates, "rates"), "rates.report").result == 2.0

    watched = run_workflow(
        declared(watchers, "watchers"), "watchers.watch", {"host": "a"}, jobs={"hosts.check": True}
    )
    watched.advance("10h")
    assert (watched.generations, watched.published) == (2, {"checks": 121, "failed": 0})

    book: dict[str, Callable[[int], int]] = {"book": lambda order: order}
    assert (
        run_workflow(declared(shelves, "shelves"), "shelves.book", {"orders": [1, 2]}, steps=book).result == 3
    )
    reported = run_workflow(declared(weather, "weather"), "weather.report", {"airport": "JFK"})
    assert reported.result == "snow"

    signed = {"contracts.register": 12, "contracts.send": "sent"}
    agent = declared(contracts, "contracts")
    assert run_workflow(agent, "contracts.sign", {"contract": 1}, jobs=signed).result == "sent"
    sent = {"crates.weigh": 3, "crates.pack": None, "crates.ship": "shipped"}
    crate = run_workflow(declared(crates, "crates"), "crates.send", {"crate": 1}, jobs=sent)
    assert (crate.result, crate.calls[0].name) == ("shipped", "crates.weigh")


def price(carrier: str, grams: int) -> int:
    return len(carrier) * grams


def add(x: int, y: int) -> int:
    return x + y


def report(text: str) -> str:
    return text


def total(numbers: list[int]) -> int:
    return sum(numbers)


def test_the_guide_from_celery_has_each_primitive() -> None:
    canvas, _ = blocks("coming-from-celery-canvas.md")
    agent = declared(canvas, "canvas")
    jobs: dict[str, Any] = {"canvas.add": add, "canvas.total": total}

    def result(name: str, **arguments: Any) -> Any:
        return run_workflow(agent, f"canvas.{name}", arguments, jobs=jobs).result

    assert (result("chain"), result("chord"), result("starmap")) == (8, 90, 100)
    assert result("chunks", items=list(range(150))) == [4950, 6225]
    rejected: dict[str, Any] = {"canvas.add": Fail("expected y, got none"), "canvas.report": report}
    assert "got none" in run_workflow(agent, "canvas.link_error", jobs=rejected).result


def test_the_message_of_the_guide_from_celery_is_a_chain_with_a_chord() -> None:
    [message] = blocks("coming-from-celery-canvas.md", "json")
    chain = ChainArguments.model_validate(JobRequested.model_validate_json(message).data.arguments)
    assert GroupArguments.model_validate(chain.steps[1].arguments).then is not None
