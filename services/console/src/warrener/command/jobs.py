"""Jobs as the store holds them: `warrener jobs` lists them, `warrener job` shows one."""

import asyncio
import shlex
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlencode

import typer

from warrener.context import resolve_endpoints
from warrener.errors import CommandError, ExitCode, UsageError
from warrener.options import JobId, Json, Store, flag, option, shared
from warrener.render.screen import err, out, print_json, print_json_line
from warrener_contracts.private_payloads import PayloadUnreadable
from warrener_contracts.state_machine import JobState

if TYPE_CHECKING:
    from warrener.operations.jobs import JobsQuery
    from warrener.operations.noun import Backend, Verb
    from warrener_runtime.encryption import KeyRing
    from warrener_store.jobs.rows import JobRow

_WATCH_INTERVAL = 1.0  # seconds
_WAIT_INTERVAL = 0.5  # seconds
_MAX_COMPARED = 50_000  # jobs that one list compares with filters that have no index
_REJECTED = "rejected"


def jobs_command() -> Callable[..., None]:
    """Make `warrener jobs`: the list of the noun, which it can watch, and rejected requests."""
    from warrener.command import verbs
    from warrener.operations.jobs import JOBS, JobsQuery, list_jobs

    def jobs(*, watch: bool, store: str | None, as_json: bool, **given: Any) -> None:
        if _REJECTED in (given["state"] or ()):
            _list_rejected(given | {"watch": watch}, store, as_json=as_json)
            return
        query = verbs.validated(JobsQuery, given | {"argument": shlex.join(given["argument"] or ())})
        noun = replace(JOBS, list=partial(list_jobs, max_compared=_MAX_COMPARED))
        if watch:
            verbs.with_backend(resolve_endpoints(store=store), partial(_watch, query=query, as_json=as_json))
        else:
            verbs.list_nouns(noun, query, resolve_endpoints(store=store), as_json=as_json)

    watching = shared(
        "Refresh every second until Ctrl-C; with --json, one line per change.", names="--watch -w"
    )
    own = {"watch": (Annotated[bool, watching], False)}
    filters = _filters(", ".join(JobState) + "; repeatable. `rejected`: requests that made no job.")
    return verbs.finished(
        jobs, list_jobs, {}, {**verbs.options_of(JobsQuery), **filters, **own, **verbs.options_of_reads(JOBS)}
    )


def _filters(states: str) -> dict[str, tuple[Any, Any]]:
    argument = typer.Option(
        metavar="KEY=VALUE", help="Value of an argument (dots lead into objects); repeatable."
    )
    state = typer.Option(metavar="STATE", help=f"State of the jobs: {states}")
    return {
        "state": (Annotated[list[str] | None, state], None),
        "argument": (Annotated[list[str] | None, argument], None),
    }


def cancel_command() -> Callable[..., None]:
    """Make `warrener cancel`: the verb of the noun, with the filters of `warrener jobs` as options."""
    from warrener.command import verbs
    from warrener.operations.jobs import JOBS, NOT_OVER, JobsQuery, cancel_jobs
    from warrener.operations.noun import ListQuery

    cancel = verbs.commands_of(JOBS)["cancel"]
    filters = verbs.options_of(JobsQuery) | _filters(", ".join(sorted(NOT_OVER)) + "; repeatable.")
    for name in ("q", *ListQuery.model_fields):  # ids are its argument
        del filters[name]

    def command(keys: list[str] | None, *, yes: bool, **given: Any) -> None:
        chosen = {name: given.pop(name) for name in filters}
        chosen["state"] = ",".join(chosen["state"] or ())
        chosen["argument"] = shlex.join(chosen["argument"] or ())
        query = urlencode({name: value for name, value in chosen.items() if value})
        cancel(keys=keys, query=query, yes=yes or not query, **given)

    own = {name: (one.annotation, one.default) for name, one in signature(cancel).parameters.items()}
    del own["query"]
    return verbs.finished(command, cancel_jobs, {"keys": own.pop("keys")}, filters | own)


def send_command() -> Callable[..., None]:
    """Make `warrener send`: the verb of the noun, with the name of the signal as its second argument."""
    from warrener.command import verbs
    from warrener.operations.jobs import JOBS
    from warrener.operations.workflows import SEND, send_signal

    send = verbs.verb_command(JOBS, SEND)
    own = {name: (one.annotation, one.default) for name, one in signature(send).parameters.items()}
    del own["reason"]  # of the console's audit log
    name = typer.Argument(metavar="NAME", help="Name of the signal, such as packed.", show_default=False)
    arguments = {"key": own.pop("key"), "name": (Annotated[str, name], own.pop("name")[1])}
    return verbs.finished(send, send_signal, arguments, own)


def resume_command() -> Callable[..., None]:
    """Make `warrener resume`, the verb of the noun."""
    from warrener.operations.workflows import RESUME

    return _verb_of_one(RESUME)


def undo_command() -> Callable[..., None]:
    """Make `warrener undo`, the verb of the noun."""
    from warrener.operations.workflows import UNDO

    return _verb_of_one(UNDO)


def _verb_of_one(verb: "Verb[Any]") -> Callable[..., None]:
    from warrener.command import verbs
    from warrener.operations.jobs import JOBS

    return verbs.verb_command(JOBS, verb)


def _list_rejected(given: dict[str, Any], store: str | None, *, as_json: bool) -> None:
    """List the requests that made no job: the scheduler parks them."""
    from warrener.command import verbs
    from warrener.operations.parked import PARKED, ParkedQuery
    from warrener_contracts.topology import REQUESTS_QUEUE

    narrowing = {name: value for name, value in given.items() if name in ("since", "limit", "after")}
    if len(given["state"]) > 1 or any(given[name] for name in given.keys() - narrowing.keys() - {"state"}):
        raise UsageError(
            "expected --state rejected with --since, --limit and --after, got more: a rejected request is no "
            "job",
            do="look at `warrener parked` for all messages that no service could use",
        )
    query = verbs.validated(ParkedQuery, narrowing | {"queue": REQUESTS_QUEUE.name})
    verbs.list_nouns(PARKED, query, resolve_endpoints(store=store), as_json=as_json)


async def _watch(backend: "Backend", query: "JobsQuery", *, as_json: bool) -> None:
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    from warrener.command.verbs import table_of
    from warrener.operations.jobs import JOBS, ListedJob, list_jobs
    from warrener.render.jobs import counts_line

    seen: dict[object, ListedJob] = {}
    with Live(console=out(), auto_refresh=False, screen=False) as live:
        while True:
            page = await list_jobs(backend, query, _MAX_COMPARED)
            if as_json:
                for job in reversed(page.jobs):
                    if seen.get(job.job_id) != job:
                        print_json_line(job)
                seen = {job.job_id: job for job in page.jobs}
            else:
                rows = table_of(JOBS, page.jobs, datetime.now(UTC)) if page.jobs else Text(JOBS.empty)
                live.update(Group(counts_line(page.counts), Text(), rows), refresh=True)
            await asyncio.sleep(_WATCH_INTERVAL)


def job(
    job_id: JobId,
    *,
    wait: bool = flag("--wait", "Wait until the job ends; exit code 4 without a result."),
    logs: bool = flag("--logs", "Show the log lines of the last attempt."),
    attempt: int | None = option("Number of another attempt, for its log lines.", "N", min=1),
    follow: bool = flag(
        "--follow -f",
        "Show log lines as they arrive, until the job ends; exit code 4 without a result. With"
        " --json, one line each.",
    ),
    journal: bool = flag(
        "--journal", "Show the calls of a workflow and their answers; with --json, what a test replays."
    ),
    tree: bool = flag("--tree", "Show its child jobs, theirs, and so on."),
    decrypt: bool = flag("--decrypt", "Decrypt it with the keys of WARRENER_ENCRYPTION_KEYS_FILE."),
    reveal: bool = flag("--reveal", "Show secrets, which are hidden as in the console."),
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Show one job: its state, its attempts with errors and stacks, its child jobs, and what happens next.

    $ warrener job 01936f2e-8a3b-7c4d-9e5f-0123456789ab
    $ warrener job 456789ab
    $ warrener job 456789ab --wait --json | jq .result
    $ warrener job 456789ab --logs
    $ warrener job 456789ab --follow
    $ warrener job 456789ab --tree
    $ warrener job 456789ab --journal --json --reveal > journal.json
    """
    from warrener.command import verbs
    from warrener.selection import find_job

    async def body(backend: "Backend") -> JobState:
        row = await find_job(backend.store, job_id)
        if follow:
            from warrener.command.job_logs import follow_logs

            return await follow_logs(backend, row, attempt, as_json=as_json)
        if wait:
            row = await _wait_for_end(backend, row)
        if journal or tree:
            from warrener.command import workflow_pages

            show = workflow_pages.show_journal if journal else workflow_pages.show_tree
            await show(backend, row, as_json=as_json)
        elif logs or attempt is not None:
            from warrener.command.job_logs import show_logs

            await show_logs(backend, row, attempt, as_json=as_json)
        else:
            from warrener.command.job_page import job_page
            from warrener.operations.job import read_details

            try:
                found = await read_details(backend, row, _open_keys() if decrypt else None)
            except PayloadUnreadable as error:
                raise CommandError(str(error), do="show it without --decrypt") from error
            if as_json:
                print_json(found)
            else:
                out().print(job_page(found, await backend.now()))
        return row.state

    state = verbs.with_backend(resolve_endpoints(store=store), body, reveals=reveal)
    if (wait or follow) and state is not JobState.SUCCEEDED:
        raise typer.Exit(ExitCode.NOT_SUCCESSFUL)


def _open_keys() -> "KeyRing":
    from warrener_runtime.keys import ENCRYPTION_KEYS, find_key_file, load_key_ring

    if (keys := load_key_ring(find_key_file(None, ENCRYPTION_KEYS))) is None:
        raise UsageError(
            "expected a file of keys for --decrypt, got none", do="set WARRENER_ENCRYPTION_KEYS_FILE"
        )
    return keys


async def _wait_for_end(backend: "Backend", row: "JobRow") -> "JobRow":
    from warrener.explanations import explain
    from warrener.gathering import gather_job
    from warrener.render.explanation import next_line
    from warrener.render.jobs import state_text

    with err().status("") as status:
        while not row.state.terminal:
            # From the store alone: the broker is not queried twice a second.
            facts = await gather_job(backend.store, backend.endpoints, row, with_broker=False)
            found = explain(facts)
            line = f"  {found.line}; {next_line(found, facts.system.now)}"
            status.update(state_text(row.state).append(line, style="soft"))
            await asyncio.sleep(_WAIT_INTERVAL)
            row = (await backend.store.jobs_by_id([row.job_id]))[row.job_id]
    return row
