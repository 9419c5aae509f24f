"""A standby follows its primary, refuses writes, and takes them once it is promoted."""

import pytest
from tests.acceptance.warren import until
from tests.servers.kinds import PostgresServer
from tests.servers.standby import StandbyPostgres

from warrener_devservers import ServerFailed


def test_it_follows_refuses_writes_and_takes_them_once_promoted(
    own_postgres: PostgresServer, own_standby: StandbyPostgres
) -> None:
    own_postgres.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    until(lambda: own_standby.has_followed(own_postgres), "the standby to follow")
    assert own_standby.execute("SELECT answer FROM kept") == "42"
    with pytest.raises(ServerFailed, match="read-only transaction"):
        own_standby.execute("INSERT INTO kept VALUES (43)")
    own_standby.promote()
    own_standby.execute("INSERT INTO kept VALUES (43)")
    assert own_standby.execute("SELECT count(*) FROM kept") == "2"
