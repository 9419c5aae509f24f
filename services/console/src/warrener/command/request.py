"""`warrener request`."""

from typing import Annotated

import typer

from warrener.command_runner import run
from warrener.endpoints import resolve_endpoints
from warrener.errors import ExitCode
from warrener.job_requests import request_lines, request_one
from warrener.options import Broker, Json
from warrener.policy_options import parse_policy_options
from warrener_client import JobSpec

EXAMPLES = """
warrener request flights.load path=2013-01-01.csv
warrener request flights.load '{"path": "2013-01-01.csv"}' --wait
warrener request mail.send to=ann@example.org --delay 10m --id welcome-17
warrener request bank.pay order=17 --max-attempts 8 --delays 5s,1m,1h --no-retry 'bank.Closed*'
warrener request flights.load --from files.jsonl --id night-run
"""


def request(
    job_type: Annotated[str, typer.Argument(metavar="TYPE", help="The job type: see `warrener types`.")],
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ARGS]...", help="The arguments: one JSON object, or key=value words."),
    ] = None,
    *,
    wait: Annotated[
        bool, typer.Option("--wait", help="Until it is over; print the result. Exit code 4 if it has none.")
    ] = False,
    timeout: Annotated[
        float | None, typer.Option(help="Seconds to --wait; the job goes on after that.")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="FILE", help="One request per line, each a JSON object; - is stdin."),
    ] = None,
    delay: Annotated[str | None, typer.Option(help='Not before: "90s", "10m", "PT2H".')] = None,
    expires_after: Annotated[str | None, typer.Option(help="Give it up if it is not over by then.")] = None,
    given_id: Annotated[
        str | None,
        typer.Option(
            "--id", help="Asked again with the same id, it is the same job. With --from: each line's prefix."
        ),
    ] = None,
    key: Annotated[str | None, typer.Option("--key", help="Idempotency key: stands for one job.")] = None,
    queue: Annotated[
        str | None, typer.Option(help="Another queue than the one the job type declares.")
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            metavar="JSON",
            help="How often and how long it may be tried; the parts that are given replace the job type's.",
        ),
    ] = None,
    max_attempts: Annotated[int | None, typer.Option(help="How often it may fail.")] = None,
    max_age: Annotated[
        str | None, typer.Option(help="No attempt begins later than that after it was due.")
    ] = None,
    delays: Annotated[
        str | None, typer.Option(metavar="1s,1m,1h", help="The delays before its retries; the last repeats.")
    ] = None,
    retry_on: Annotated[
        list[str] | None,
        typer.Option(metavar="ERROR", help='Only these errors are tried again: "requests.*".'),
    ] = None,
    no_retry: Annotated[
        list[str] | None, typer.Option(metavar="ERROR", help="These errors are not tried again.")
    ] = None,
    broker: Broker = None,
    as_json: Json = False,
) -> None:
    """Ask for a job, or for one per line of a file.

    Once the broker has confirmed, the job reaches an end, whatever dies. stdout gets the job id, or with
    --wait the result.
    """
    endpoints = resolve_endpoints(broker)
    template = JobSpec(
        job_type,
        id=given_id,
        idempotency_key=key,
        queue=queue,
        delay=delay,
        expires_after=expires_after,
        policy=parse_policy_options(
            policy,
            max_attempts=max_attempts,
            max_age=max_age,
            delays=delays,
            retry_on=retry_on or (),
            no_retry=no_retry or (),
        ),
    )
    if source is not None:
        if words or key:
            raise typer.BadParameter(
                "expected arguments and keys in the file alone, got both --from and these"
            )
        successful = run(
            request_lines(endpoints, template, source, wait=wait, timeout=timeout, as_json=as_json)
        )
    else:
        successful = run(
            request_one(endpoints, template, words or [], wait=wait, timeout=timeout, as_json=as_json)
        )
    if not successful:
        raise typer.Exit(ExitCode.NOT_SUCCESSFUL)
