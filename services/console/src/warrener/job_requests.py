"""Asking for jobs from the command line, and telling how they ended."""

import asyncio
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from warrener.arguments import parse_arguments, parse_request_lines
from warrener.command_runner import connect_client
from warrener.endpoints import ResolvedEndpoints
from warrener.errors import CommandError, ExitCode
from warrener.render.screen import err, print_json, print_json_line
from warrener.render.states import state_text
from warrener_client import BadRequest, Client, Job, JobSpec, RequestRejected, ResultTimeout
from warrener_contracts.events import JobFinishedData
from warrener_contracts.state_machine import JobState

_REFUSED_WITHIN = 0.5  # seconds; a running scheduler says within that why it does not take a request


async def request_one(
    endpoints: ResolvedEndpoints,
    template: JobSpec,
    words: Sequence[str],
    *,
    wait: bool,
    timeout: float | None,
    as_json: bool,
) -> bool:
    """One job; whether it was successful, as far as was waited for."""
    spec = replace(template, arguments=parse_arguments(words))
    async with connect_client(endpoints) as client:
        job = await _request(client, spec)
        if wait:
            return _print_outcome(await _wait_for_outcome(job, timeout), as_json=as_json)
        _raise_if_refused(await _wait_for_refusal(job))
    if as_json:
        print_json({"job_id": job.job_id, "job_type": job.job_type, "deduplicated": job.deduplicated})
    else:
        err().print(
            f"[good]✓[/] the broker keeps it; [soft]how it goes: warrener job {str(job.job_id)[-8:]}[/]"
        )
        sys.stdout.write(f"{job.job_id}\n")
    return True


async def request_lines(
    endpoints: ResolvedEndpoints,
    template: JobSpec,
    source: str,
    *,
    wait: bool,
    timeout: float | None,
    as_json: bool,
) -> bool:
    """One job per line; whether all were successful, as far as was waited for."""
    jobs: list[Job] = []
    async with connect_client(endpoints) as client:
        try:
            with _opened(source) as lines, _progress("kept by the broker") as progress:
                task = progress.add_task("", total=None)
                async for job in client.request_many(parse_request_lines(lines, template), want_results=wait):
                    jobs.append(job)
                    progress.advance(task)
                    if not wait:
                        _print_confirmed(job, as_json=as_json)
        except BaseException:
            _report_interruption(len(jobs), template)
            raise
        err().print(f"[good]✓[/] the broker keeps {len(jobs):,} requests")
        return await _print_outcomes(jobs, timeout, as_json=as_json) if wait else True


async def _request(client: Client, spec: JobSpec) -> Job:
    try:
        return (await client.request_batch([spec]))[0]
    except BadRequest as error:
        raise CommandError(str(error), do="see `warrener request --help`", code=ExitCode.USAGE) from error


async def _wait_for_refusal(job: Job) -> BaseException | None:
    try:
        await job.outcome(timeout=_REFUSED_WITHIN)
    except (RequestRejected, ResultTimeout) as answer:
        return answer
    return None


def _raise_if_refused(answer: BaseException | None) -> None:
    if isinstance(answer, RequestRejected):
        raise CommandError(str(answer), do="see `warrener types` for what agents can run") from answer


async def _wait_for_outcome(job: Job, timeout: float | None) -> JobFinishedData:
    try:
        with err().status(f"[soft]{job.job_type} {job.job_id}[/]"):
            return await job.outcome(timeout=timeout)
    except RequestRejected as refusal:
        raise CommandError(
            str(refusal), do="see `warrener types` for what agents can run", code=ExitCode.NOT_SUCCESSFUL
        ) from refusal
    except ResultTimeout as late:
        raise CommandError(
            str(late), do=f"look with `warrener job {job.job_id} --wait`", code=ExitCode.NOT_SUCCESSFUL
        ) from late
    except asyncio.CancelledError:
        err().print(f"[odd]![/] not waited for any more; the job goes on: warrener job {job.job_id}")
        raise


def _print_outcome(ended: JobFinishedData, *, as_json: bool) -> bool:
    successful = ended.state is JobState.SUCCEEDED
    if as_json:
        print_json(ended)
        return successful
    screen = err()
    screen.print(state_text(ended.state), f" {ended.job_type}  [soft]{ended.job_id}[/]", sep="")
    if ended.error is not None:
        screen.print(f"  {ended.error.type}: {ended.error.message}", style="bad", markup=False)
        screen.print(f"  [soft]→[/] the whole story: warrener job {str(ended.job_id)[-8:]}")
    elif ended.reason is not None:
        screen.print(f"  {ended.reason}", markup=False)
    if successful:
        print_json(ended.result)
    return successful


def _print_confirmed(job: Job, *, as_json: bool) -> None:
    if as_json:
        print_json_line({"job_id": str(job.job_id), "job_type": job.job_type})
    else:
        sys.stdout.write(f"{job.job_id}\n")


async def _print_outcomes(jobs: Sequence[Job], timeout: float | None, *, as_json: bool) -> bool:
    """Results as JSON lines, in the order in which the jobs end."""
    failures = 0
    with _progress("over") as progress:
        task = progress.add_task("", total=len(jobs))
        for first in asyncio.as_completed([_line_of(job, timeout) for job in jobs]):
            line = await first
            failures += line["state"] != JobState.SUCCEEDED
            print_json_line(line)
            progress.advance(task)
    if not as_json:
        sign = "[bad]✗[/]" if failures else "[good]✓[/]"
        err().print(f"{sign} {len(jobs) - failures:,} of {len(jobs):,} succeeded")
    return not failures


async def _line_of(job: Job, timeout: float | None) -> dict[str, Any]:
    try:
        ended = await job.outcome(timeout=timeout)
    except RequestRejected as refusal:
        return {"job_id": job.job_id, "state": "rejected", "reason": refusal.reason, "detail": refusal.detail}
    except ResultTimeout:
        return {"job_id": job.job_id, "state": "unknown", "detail": "not waited for any more; it goes on"}
    line = {"job_id": job.job_id, "state": ended.state, "result": ended.result, "error": ended.error}
    return line if ended.reason is None else line | {"reason": ended.reason}


def _report_interruption(confirmed: int, template: JobSpec) -> None:
    screen = err()
    screen.print(
        f"[odd]![/] stopped: the broker keeps the first {confirmed:,} requests, and a few more may be "
        "on their way"
    )
    if template.id:
        screen.print("  [soft]→[/] run the same command again: with the same --id no line makes a second job")
    else:
        screen.print("  [soft]→[/] next time give --id PREFIX: the command may then be repeated as it is")


@contextmanager
def _opened(source: str) -> Generator[TextIO]:
    if source == "-":
        yield sys.stdin
        return
    try:
        with Path(source).open(encoding="utf-8") as lines:
            yield lines
    except OSError as error:
        raise CommandError(
            f"expected a file of JSON lines at {source}, got: {error.strerror}", code=ExitCode.USAGE
        ) from error


def _progress(what: str) -> Progress:
    return Progress(
        TextColumn(f"[soft]{what}[/]"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=err()
    )
