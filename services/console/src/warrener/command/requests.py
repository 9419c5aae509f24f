"""Requests for jobs: `warrener request` publishes them and awaits results."""

import asyncio
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import typer
from rich.text import Text

from warrener import options
from warrener.context import ResolvedEndpoints, connect_client, resolve_endpoints, run
from warrener.errors import CommandError, ExitCode, UsageError
from warrener.options import argument, flag, option
from warrener.render.screen import err, print_json, print_json_line
from warrener.selection import hint_at_job_type
from warrener_contracts.state_machine import JobState

if TYPE_CHECKING:
    from uuid import UUID

    from rich.progress import Progress

    from warrener_client import Job, JobSpec
    from warrener_contracts.events import JobFinishedData

_FIRST_LOOK, _MAX_LOOK = 2.0, 30.0  # seconds between looks at a job that is waited for
_REJECTION_TIMEOUT = 0.5  # seconds; a running scheduler rejects a request within this time


def request(
    job_type: str = argument("Job type: see `warrener job-types`.", "TYPE"),
    words: options.Arguments = None,
    *,
    wait: bool = flag("--wait", "Wait for the end and print the result; exit code 4 without one."),
    timeout: float | None = option(
        "Time to --wait; the job goes on afterwards (default no limit).", "SPAN", parser=options.parse_seconds
    ),
    source: str | None = option("File with one JSON object per request; - is stdin.", "FILE", names="--from"),
    delay: str | None = option("Delay before the first attempt, such as 90s, 10m or PT2H.", "SPAN"),
    expires_after: str | None = option("Time to finish in; the job expires afterwards.", "SPAN"),
    given_id: str | None = option(
        "Request id; the same id is the same job. With --from: prefix of each line's id.",
        "TEXT",
        names="--id",
    ),
    key: str | None = option("Idempotency key; the same key is the same job.", "TEXT"),
    queue: str | None = option("Queue (default: that of the job type).", "NAME"),
    policy: str | None = option("Policy fields that replace those of the job type.", "JSON"),
    max_attempts: int | None = option("Maximum number of failures (default: the job type's policy).", "N"),
    max_age: str | None = option("Time after the due time in which attempts may begin.", "SPAN"),
    delays: str | None = option("Delays before the retries; the last one repeats.", "1s,1m,1h"),
    retry_on: list[str] | None = option('Errors to retry, such as "requests.*"; repeatable.', "ERROR"),
    no_retry_on: list[str] | None = option("Errors never to retry; repeatable.", "ERROR"),
    broker: options.Broker = None,
    as_json: options.Json = False,
) -> None:
    """Request a job, or one per line of a file.

    Once the broker has confirmed a request, its job ends, whatever crashes. stdout gets the job id, or with
    --wait the result.

    $ warrener request flights.load path=2013-01-01.csv
    $ warrener request flights.load '{"path": "2013-01-01.csv"}' --wait
    $ warrener request mail.send to=ann@example.org --delay 10m --id welcome-17
    $ warrener request bank.pay order=17 --max-attempts 8 --delays 5s,1m,1h --no-retry-on 'bank.Closed*'
    $ warrener request flights.load --from files.jsonl --id night-run
    """
    from warrener_client import JobSpec

    endpoints = resolve_endpoints(broker)
    template = JobSpec(
        job_type,
        id=given_id,
        idempotency_key=key,
        queue=queue,
        delay=delay,
        expires_after=expires_after,
        policy=options.parse_policy_options(
            policy,
            max_attempts=max_attempts,
            max_age=max_age,
            delays=delays,
            retry_on=retry_on,
            no_retry_on=no_retry_on,
        ),
    )
    if source is None:
        spec = replace(template, arguments=options.parse_arguments(words or []))
        body = _request_one(endpoints, spec, wait=wait, timeout=timeout, as_json=as_json)
    elif words or key:
        raise typer.BadParameter("expected arguments and keys in the file alone, got both --from and these")
    else:
        body = _request_lines(endpoints, template, source, wait=wait, timeout=timeout, as_json=as_json)
    if not run(body):
        raise typer.Exit(ExitCode.NOT_SUCCESSFUL)


async def _request_one(
    endpoints: ResolvedEndpoints, spec: "JobSpec", *, wait: bool, timeout: float | None, as_json: bool
) -> bool:
    """Request one job. True if it succeeded, or was not waited for."""
    from warrener_client import BadRequest, RequestRejected, ResultTimeout, ResultUnreadable

    async with connect_client(endpoints) as client:
        try:
            job = (await client.request_batch([spec]))[0]
        except BadRequest as error:
            raise UsageError(str(error), do="see `warrener request --help`") from error
        try:
            if wait:
                return _print_outcome(await _wait_for_outcome(endpoints, job, timeout), as_json=as_json)
            with suppress(ResultTimeout, ResultUnreadable):
                await job.outcome(timeout=_REJECTION_TIMEOUT)
        except RequestRejected as rejection:
            hint = await hint_at_job_type(endpoints, job.job_type)
            do = "see `warrener job-types` for what agents can run, and with which arguments"
            code = ExitCode.NOT_SUCCESSFUL if wait else ExitCode.FAILED
            raise CommandError(str(rejection), do=f"{hint} {do}".strip(), code=code) from rejection
    if as_json:
        print_json({"job_id": job.job_id, "job_type": job.job_type, "deduplicated": job.deduplicated})
    else:
        err().print(
            f"[good]✓[/] confirmed by the broker; [soft]its progress: warrener job {str(job.job_id)[-8:]}[/]"
        )
        sys.stdout.write(f"{job.job_id}\n")
    return True


async def _wait_for_outcome(
    endpoints: ResolvedEndpoints, job: "Job", timeout: float | None
) -> "JobFinishedData":
    from warrener_client import ResultTimeout, ResultUnreadable

    reports = asyncio.create_task(_report_trouble(endpoints, job.job_id))
    try:
        with err().status(f"[soft]{job.job_type} {job.job_id}[/]"):
            return await job.outcome(timeout=timeout)
    except ResultTimeout as late:
        raise CommandError(
            str(late), do=f"look with `warrener job {job.job_id} --wait`", code=ExitCode.NOT_SUCCESSFUL
        ) from late
    except ResultUnreadable as error:
        raise CommandError(
            str(error), do=f"the job has ended: `warrener job {job.job_id}` shows it"
        ) from error
    except asyncio.CancelledError:
        err().print(f"[warning]![/] waiting ended; the job goes on: warrener job {job.job_id}")
        raise
    finally:
        reports.cancel()


async def _report_trouble(endpoints: ResolvedEndpoints, job_id: "UUID") -> None:
    """Print what the job waits for that only a person can resolve, each cause once."""
    from warrener.context import connect_store
    from warrener.explanations import explain
    from warrener.explanations.causes import Cause
    from warrener.gathering import gather_job

    reported, pause = set[Cause](), _FIRST_LOOK
    with suppress(Exception):  # a note beside a wait must not end it: nothing without a store
        async with connect_store(endpoints) as store:
            while True:
                await asyncio.sleep(pause)
                pause = min(2 * pause, _MAX_LOOK)
                row = (await store.jobs_by_id([job_id])).get(job_id)
                if row is None or row.state.terminal:
                    continue
                found = explain(await gather_job(store, endpoints, row, with_broker=False))
                if found.needs_action and found.cause not in reported:
                    reported.add(found.cause)
                    text = f"{found.line}; the remedies: warrener explain {str(job_id)[-8:]}"
                    err().print(Text.assemble(("! ", "warning"), text))


def _print_outcome(ended: "JobFinishedData", *, as_json: bool) -> bool:
    """Print how the job ended. True if it succeeded."""
    successful = ended.state is JobState.SUCCEEDED
    if as_json:
        print_json(ended)
        return successful
    from warrener.render.jobs import state_text

    screen = err()
    screen.print(state_text(ended.state), f" {ended.job_type}  [soft]{ended.job_id}[/]", sep="")
    if ended.error is not None:
        screen.print(f"  {ended.error.type}: {ended.error.message}", style="error", markup=False)
        screen.print(f"  [soft]→[/] the whole story: warrener job {str(ended.job_id)[-8:]}")
    elif ended.reason is not None:
        screen.print(f"  {ended.reason}", markup=False)
    if successful:
        print_json(ended.result)
    return successful


async def _request_lines(
    endpoints: ResolvedEndpoints,
    template: "JobSpec",
    source: str,
    *,
    wait: bool,
    timeout: float | None,
    as_json: bool,
) -> bool:
    """Request one job per line. True if all succeeded, or were not waited for."""
    jobs: list[Job] = []
    async with connect_client(endpoints) as client:
        try:
            with _open_lines(source) as lines, _progress("confirmed by the broker") as progress:
                task = progress.add_task("", total=None)
                async for job in client.request_many(
                    options.parse_request_lines(lines, template), want_results=wait
                ):
                    jobs.append(job)
                    progress.advance(task)
                    if not wait and as_json:
                        print_json_line({"job_id": str(job.job_id), "job_type": job.job_type})
                    elif not wait:
                        sys.stdout.write(f"{job.job_id}\n")
        except BaseException:
            _report_interruption(len(jobs), template)
            raise
        err().print(f"[good]✓[/] the broker has confirmed {len(jobs):,} requests")
        return await _print_outcomes(jobs, timeout, as_json=as_json) if wait else True


@contextmanager
def _open_lines(source: str) -> Generator[TextIO]:
    if source == "-":
        yield sys.stdin
        return
    try:
        with Path(source).open(encoding="utf-8") as lines:
            yield lines
    except OSError as error:
        raise UsageError(f"expected a file of JSON lines at {source}, got: {error.strerror}") from error


async def _print_outcomes(jobs: "Sequence[Job]", timeout: float | None, *, as_json: bool) -> bool:
    """Print results as JSON lines, in the order in which the jobs end."""
    failures = 0
    with _progress("finished") as progress:
        task = progress.add_task("", total=len(jobs))
        for first in asyncio.as_completed([_outcome_line(job, timeout) for job in jobs]):
            line = await first
            failures += line["state"] != JobState.SUCCEEDED
            print_json_line(line)
            progress.advance(task)
    if not as_json:
        sign = "[error]✗[/]" if failures else "[good]✓[/]"
        err().print(f"{sign} {len(jobs) - failures:,} of {len(jobs):,} succeeded")
    return not failures


async def _outcome_line(job: "Job", timeout: float | None) -> dict[str, Any]:
    from warrener_client import RequestRejected, ResultTimeout, ResultUnreadable

    try:
        ended = await job.outcome(timeout=timeout)
    except RequestRejected as rejection:
        reason, detail = rejection.reason, rejection.detail
        return {"job_id": job.job_id, "state": "rejected", "reason": reason, "detail": detail}
    except ResultTimeout:
        return {"job_id": job.job_id, "state": "unknown", "detail": "waiting ended; the job goes on"}
    except ResultUnreadable as error:
        return {"job_id": job.job_id, "state": "ended", "detail": str(error)}
    line = {"job_id": job.job_id, "state": ended.state, "result": ended.result, "error": ended.error}
    return line if ended.reason is None else line | {"reason": ended.reason}


def _report_interruption(confirmed: int, template: "JobSpec") -> None:
    first = f"the broker has confirmed the first {confirmed:,} requests, and may receive a few more"
    err().print(f"[warning]![/] stopped: {first}")
    again = "run the same command again: with the same --id no line makes a second job"
    later = "next time give --id PREFIX: the command may then be repeated as it is"
    err().print(f"  [soft]→[/] {again if template.id else later}")


def _progress(what: str) -> "Progress":
    from rich import progress

    columns = progress.BarColumn(), progress.MofNCompleteColumn(), progress.TimeElapsedColumn()
    return progress.Progress(progress.TextColumn(f"[soft]{what}[/]"), *columns, console=err())
