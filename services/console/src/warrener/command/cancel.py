"""`warrener cancel`."""

from typing import Annotated

import typer

from warrener.command_runner import connect_client, connect_store, run
from warrener.endpoints import resolve_endpoints
from warrener.job_lookup import as_uuid, find_job
from warrener.options import Broker, Json, Store
from warrener.render.screen import err, print_json

EXAMPLES = """
warrener cancel 01936f2e-8a3b-7c4d-9e5f-0123456789ab
warrener cancel 456789ab --reason "wrong file"
warrener cancel 456789ab --tree
"""


def cancel(
    job_id: Annotated[
        str, typer.Argument(metavar="ID", help="The job, or the end of its id.", show_default=False)
    ],
    *,
    reason: Annotated[str, typer.Option(help="Why; it is kept with the job.")] = "asked for",
    tree: Annotated[
        bool, typer.Option("--tree", help="With all its follow-ups, those yet to come too.")
    ] = False,
    broker: Broker = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Ask to stop a job.

    What waits is cancelled at once; what runs is stopped by its agent. With --tree the follow-ups of the job,
    and theirs, are cancelled too, also where the job itself is over.
    """
    run(_cancel(job_id, reason, broker, store, tree=tree, as_json=as_json))


async def _cancel(
    text: str, reason: str, broker: str | None, store: str | None, *, tree: bool, as_json: bool
) -> None:
    endpoints = resolve_endpoints(broker, store)
    job_id = as_uuid(text)
    if job_id is None:  # a whole id needs no store: commands go through the broker
        async with connect_store(endpoints) as open_store:
            job_id = (await find_job(open_store, text)).job_id
    async with connect_client(endpoints) as client:
        await client.cancel(job_id, reason, tree=tree)
    if as_json:
        print_json({"job_id": job_id, "asked": "cancel", "reason": reason, "tree": tree})
    else:
        err().print(
            f"[good]✓[/] asked to cancel {job_id}{' with its follow-ups' if tree else ''}; "
            f"[soft]what becomes of it: warrener job {str(job_id)[-8:]}[/]"
        )
