"""`warrener doctor --as ROLE` finds what a user may do beyond a role, and harms nothing."""

import json
from typing import Any

import pytest
from tests.broker_access import count_messages
from tests.faults.broker_users import BrokerUser
from tests.security.guests import House
from typer.testing import CliRunner

from warrener.command.app import app
from warrener_contracts.permissions import BrokerRole
from warrener_contracts.topology import TOPOLOGY

QUEUES = [queue.name for queue in TOPOLOGY.queues]


def findings(user: BrokerUser, role: BrokerRole, *options: str) -> list[dict[str, Any]]:
    """Run the doctor as this user; its findings."""
    result = CliRunner().invoke(app, ["doctor", "--as", role.value, *options, "--broker", user.url, "--json"])
    found: list[dict[str, Any]] = json.loads(result.stdout)
    assert result.exit_code == any(one["status"] == "error" for one in found), result.output
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize("role", BrokerRole)
def test_the_holder_of_a_role_has_no_more_and_no_less(house: House, role: BrokerRole) -> None:
    queues = ("etl",) if role is BrokerRole.AGENT else ()
    user = house.user(role, queues=queues)
    [one] = findings(user, role, *(f"--queue={queue}" for queue in queues))
    assert one["status"] == "ok", one


def test_a_user_who_may_do_all_is_found_out_and_nothing_is_harmed(house: House, broker: Any) -> None:
    user = BrokerUser(broker, house.url)
    before = count_messages(house.url, *QUEUES)
    found = [one["message"] for one in findings(user, BrokerRole.ASKER)]
    assert any("may make and delete warrener.unroutable" in one for one in found)
    assert any("may write to and bind" in one for one in found)
    assert count_messages(house.url, *QUEUES) == before
    user.remove()
