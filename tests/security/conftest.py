"""The house that the attacks of a file share, and a warren of real processes as acceptance tests have it."""

from collections.abc import Iterator

import pytest
from tests.acceptance.conftest import forked_ended, new_warren, shared_warren, stores_closed, warren
from tests.security.guests import House, built_house
from tests.servers.kinds import RabbitMQServer

__all__ = ["forked_ended", "new_warren", "shared_warren", "stores_closed", "warren"]


@pytest.fixture(scope="module")
def house(broker: RabbitMQServer) -> Iterator[House]:
    """A virtual host in which everything is declared."""
    with built_house(broker) as one:
        yield one
