"""`warrener doctor --as ROLE` finds what a user may do beyond a role, and harms nothing."""

import json
from typing import Any

import pytest
from tests.acceptance.warren import until
from tests.broker_access import count_messages, publish
from tests.faults.broker_users import BrokerUser
from tests.security.guests import House
from tests.servers.kinds import RabbitMQServer
from typer.testing import CliRunner

from warrener.command.app import app
from warrener_contracts.permissions import BrokerRole, Holder
from warrener_contracts.topology import DELAY_QUEUES, PINGS, TOPOLOGY

QUEUES = [queue.name for queue in TOPOLOGY.queues if queue not in DELAY_QUEUES]
AGENT = ("--queue=etl", "--child-type=*")


def findings(user: BrokerUser, role: BrokerRole, *options: str) -> list[dict[str, Any]]:
    """Run the doctor as this user; its findings."""
    result = CliRunner().invoke(app, ["doctor", "--as", role.value, *options, "--broker", user.url, "--json"])
    found: list[dict[str, Any]] = json.loads(result.stdout)
    assert result.exit_code == any(one["status"] == "error" for one in found), result.output
    return found


@pytest.mark.parametrize("role", BrokerRole)
def test_the_holder_of_a_role_has_no_more_and_no_less(house: House, role: BrokerRole) -> None:
    is_agent = role is BrokerRole.AGENT
    user = house.user(role, **({"queues": ("etl",), "child_types": ("*",)} if is_agent else {}))
    [one] = findings(user, role, *(AGENT if is_agent else ()))
    assert one["status"] == "ok", one


def test_an_asker_of_other_job_types_lacks_the_named_ones(house: House) -> None:
    user = house.user(BrokerRole.ASKER, job_types=("payments.*",))
    assert [one["status"] for one in findings(user, BrokerRole.ASKER, "--job-type=payments.*")] == ["ok"]
    found = [one["message"] for one in findings(user, BrokerRole.ASKER, "--job-type=billing.*")]
    assert f"user {user.name} may not publish to warrener.requests under 'billing.doctor-nobody'" in found


def test_an_agent_that_may_not_ping_lacks_that_and_impersonates_nobody(
    house: House, broker: RabbitMQServer
) -> None:
    user = BrokerUser(broker, house.url)
    user.hold(Holder(BrokerRole.AGENT, user.name, queues=("etl",)))
    user.permit_keys(PINGS, "^$")
    found = [one["message"] for one in findings(user, BrokerRole.AGENT, "--queue=etl")]
    assert f"user {user.name} may not publish to {PINGS} under the name of a queue for pings" in found
    assert not [one for one in found if "impersonator" in one]
    user.remove()


def test_a_user_who_may_do_all_is_found_out_and_nothing_is_harmed(
    house: House, broker: RabbitMQServer
) -> None:
    user = BrokerUser(broker, house.url)
    for queue in QUEUES:
        publish(house.url, "", queue, b"{}")
    each = [1] * len(QUEUES)
    until(lambda: count_messages(house.url, *QUEUES) == each, "a message in each queue")
    found = [one["message"] for one in findings(user, BrokerRole.ASKER)]
    assert any("may make and delete warrener.unroutable" in one for one in found)
    assert any("may write to and bind" in one for one in found)
    assert count_messages(house.url, *QUEUES) == each
    same = CliRunner().invoke(app, ["topology", "--check", "--broker", house.url])
    assert same.exit_code == 0, same.output
    user.remove()
