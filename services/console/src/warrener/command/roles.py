"""`warrener topology permissions` and `apply`: permissions of users, exchanges and queues of the broker."""

import shlex
from typing import TYPE_CHECKING

from warrener.context import ResolvedEndpoints, command_settings, connect_client, resolve_endpoints, run
from warrener.errors import UsageError
from warrener.options import Broker, Json, Store, argument, option
from warrener.render.screen import err, out, print_json

if TYPE_CHECKING:
    from warrener_contracts.permissions import Holder

ROLES = ["asker", "observer", "operator", "console", "agent", "scheduler", "supervisor", "topology-admin"]
"""As `warrener_contracts.permissions.BrokerRole`, for help and completion; a test compares them."""


def complete_role(incomplete: str) -> list[str]:
    """The roles that begin with a word."""
    return [role for role in ROLES if role.startswith(incomplete)]


def holder_of(
    role: str,
    user: str,
    queues: list[str] | None = None,
    job_types: list[str] | None = None,
    child_types: list[str] | None = None,
) -> "Holder":
    """Make the holder of a role from words of the command line. Raises UsageError."""
    from warrener_contracts.permissions import BrokerRole, Holder

    try:
        known = BrokerRole(role)
    except ValueError:
        raise UsageError(f"expected a role, got {role!r}; one of {', '.join(ROLES)}") from None
    if known is BrokerRole.AGENT and not queues:
        raise UsageError("expected the queues of the agent, got none; add --queue NAME for each")
    try:
        return Holder(
            known,
            user,
            command_settings().namespace,
            tuple(queues or ()),
            tuple(job_types or ()),
            tuple(child_types or ()),
        )
    except ValueError as error:
        raise UsageError(str(error)) from None


def permissions(
    role: str = argument(", ".join(ROLES) + ".", "ROLE", autocompletion=complete_role),
    *,
    user: str = option(
        "User of the broker; make it first: `rabbitmqctl add_user NAME`.", "NAME", default=...
    ),
    vhost: str = option("Virtual host.", "NAME", default="/"),
    queue: list[str] | None = option("Queue that an agent serves; give one for each.", "NAME"),
    job_type: list[str] | None = option(
        "Job types that an agent runs (default all), or that others request (default all for an asker, none "
        "for an operator); * stands for any characters.",
        "PATTERN",
    ),
    child_type: list[str] | None = option(
        "Job types that handlers of an agent request (default none).", "PATTERN"
    ),
    as_json: Json = False,
) -> None:
    """Print the calls of rabbitmqctl that give a user of the broker what one role needs, and nothing else.

    They replace what the user might do before, and are derived from the topology of this version: print them
    again after an upgrade. An asker requests jobs and receives their ends. An observer binds queues named
    warrener.observer.USER.NAME to public events. An operator commands: who may put schedules requests any job
    type by them, so `schedule put` needs --job-type '*'. An agent serves its queues; `warrener topology apply
    --queue NAME` makes them. `warrener doctor --as ROLE` tries what goes beyond the role.

    $ warrener topology permissions asker --user billing --job-type 'billing.*'
    $ warrener topology permissions agent --user loaders --queue etl --job-type 'flights.*' | sh
    $ warrener topology permissions scheduler --user scheduler --vhost jobs
    """
    from warrener_contracts.permissions import commands_of

    calls = commands_of(holder_of(role, user, queue, job_type, child_type), vhost)
    if as_json:
        print_json(calls)
    else:
        for call in calls:
            out().print(shlex.join(call), markup=False, highlight=False, soft_wrap=True)


def apply(
    *,
    queue: list[str] | None = option("Dispatch queue to make; give one for each.", "NAME"),
    broker: Broker = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Make every exchange, queue and binding, so that services need no permission to declare any.

    Needs the role topology-admin. It changes nothing that exists, and is safe to repeat; do so after an
    upgrade, before the services start. With WARRENER_DECLARE=never they declare nothing. --store ties the
    namespace to its store, as the first scheduler or supervisor does that may declare.

    $ warrener topology apply --queue etl --queue reports
    $ warrener topology apply --queue etl --store postgresql://owner:secret@db/warrener
    """
    made = run(_apply(resolve_endpoints(broker, store), queue or [], claims=store is not None))
    if as_json:
        print_json({"declared": made})
    else:
        err().print(f"[good]✓[/] the broker has every exchange and binding, and {len(made)} queues")


async def _apply(endpoints: ResolvedEndpoints, queues: list[str], *, claims: bool) -> list[str]:
    from warrener.installation import claim
    from warrener_contracts.topology import TOPOLOGY, dispatch_queue

    wanted = TOPOLOGY.with_queues(dispatch_queue(queue) for queue in queues)
    async with connect_client(endpoints, declare="if-missing") as client:
        await client.declare_topology(queues)
    if claims:
        await claim(endpoints)
    return [queue.name for queue in wanted.queues]
