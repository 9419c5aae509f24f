"""A permission that a service lacks ends no healthy job, and is named with the command that grants it.

Deleted pieces, and heartbeats that nobody gets or that are refused, are tried in virtual time
(`tests/simulation/test_missing_pieces.py`); here RabbitMQ refuses.
"""

import json
from functools import partial
from urllib.error import HTTPError
from urllib.request import urlopen

from tests.acceptance.command_line import call_command
from tests.acceptance.warren import ServiceProcess, Warren, until
from tests.faults.broker_users import BrokerUser
from tests.servers.kinds import RabbitMQServer

from warrener.explanations.causes import Cause
from warrener_client import SyncClient, SyncJob
from warrener_contracts import topology

MODULE = "tests.acceptance.presence_handlers"


def not_ready(service: ServiceProcess) -> str:
    """What its readiness says is wrong."""
    try:
        with urlopen(f"http://127.0.0.1:{service.health_port}/ready", timeout=5) as answer:
            return str(json.load(answer)["checks"]) if answer.status != 200 else ""
    except HTTPError as error:
        return error.read().decode()
    except OSError:
        return ""


def _names_the_permission(service: ServiceProcess) -> bool:
    return "run `rabbitmqctl set_permissions -p" in not_ready(service)


def test_9_services_wait_for_the_permission_to_declare_and_a_supervisor_works_without_one_piece(
    warren: Warren, broker: RabbitMQServer
) -> None:
    user, partly = BrokerUser(broker, warren.broker_url), BrokerUser(broker, warren.broker_url)
    user.permit(configure="^$")
    partly.permit(configure=f"^(?!{topology.TRIGGERS_QUEUE.name}$).*")
    warren.environment = {"WARRENER_BROKER_URL": user.url}
    beside = warren.start("supervisor", WARRENER_BROKER_URL=partly.url)
    until(beside.ready, "the supervisor to work with all other pieces")
    (refused,) = beside.records("topology.refused")
    assert refused["piece"] == f"queue {topology.TRIGGERS_QUEUE.name}"
    waiting = [warren.start("scheduler"), warren.start("supervisor"), warren.start("agent", MODULE)]
    for service in waiting:
        until(partial(_names_the_permission, service), "readiness to name it")
        assert service.records("topology.forbidden"), service.log_text()
    user.permit()
    warren.wait_ready()
    waiting[1].end()  # the supervisor without the piece is alone
    with SyncClient(warren.broker_url) as client:
        assert client.request("quick").result(timeout=60) == "done"


def test_9_a_permission_that_a_service_lacks_is_named_with_the_command_that_grants_it(
    warren: Warren, broker: RabbitMQServer
) -> None:
    users = {name: BrokerUser(broker, warren.broker_url) for name in ("scheduler", "agent")}
    warren.start("supervisor")
    scheduler = warren.start("scheduler", WARRENER_BROKER_URL=users["scheduler"].url)
    agent = warren.start("agent", MODULE, WARRENER_BROKER_URL=users["agent"].url)
    warren.wait_ready()
    with SyncClient(warren.broker_url) as client:

        def take_away(service: ServiceProcess, right: str, piece: str, kind: str, cause: Cause) -> SyncJob:
            """Readiness, doctor and explain say what is missing; the job that waits for it."""
            user = users[service.name]
            user.permit(**{right: f"^(?!{piece.split()[1]}$).*"})
            broker.close_connections()  # a channel remembers what it may
            job = client.request(kind)
            command = f"rabbitmqctl set_permissions -p {user.vhost} {user.name} "
            named = (f"the permission to {right} {piece} for user {user.name}", command)

            def found() -> bool:
                checks = json.loads(call_command(warren, "doctor", "--json").stdout)
                return any(all(words in str(one) for words in named) for one in checks)

            def explained() -> bool:
                answer = json.loads(call_command(warren, "explain", str(job.job_id), "--json").stdout)
                return answer["cause"] == cause and all(words in str(answer) for words in named)

            until(lambda: all(words in not_ready(service) for words in named), "readiness to name it")
            until(found, "doctor to name it")
            until(explained, "explain to name it")
            return job

        # An attempt that runs on is in heartbeats; the outcome of one that ended cannot be reported.
        long = take_away(agent, "write", "exchange warrener.status", "long", Cause.RUNNING)
        quick = take_away(scheduler, "read", "queue warrener.requests", "quick", Cause.PERMISSION_REFUSED)
        for user in users.values():
            user.permit()
        (warren.folder / "go").touch()
        assert (long.result(timeout=90), quick.result(timeout=90)) == (1, "done")
