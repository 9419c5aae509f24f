"""`warrener up` on a machine with other users: they read nothing, connect to nothing, and run nothing."""

import json
import os
import pwd
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
from tests.acceptance.test_up import HANDLERS, RunningUp
from tests.broker_access import count_messages
from tests.security.attacks import attack

from warrener_devservers.rabbitmq import EPMD

OTHER = "nobody"
_MAY_BE_ANOTHER = os.geteuid() == 0
as_root = pytest.mark.skipif(not _MAY_BE_ANOTHER, reason="only root may become another user")


@pytest.fixture(scope="module")
def up(server_folders: Callable[[str], Path]) -> Iterator[RunningUp]:
    folder = server_folders("home")
    folder.mkdir()
    folder.chmod(0o755)  # as a folder of a project on a machine with several users
    (folder / "hello.py").write_text(HANDLERS)
    one = RunningUp(folder)
    try:
        one.until("ready")
        yield one
    finally:
        one.end()


def as_other(*command: str, given: str = "") -> "subprocess.CompletedProcess[str]":
    """Run a command as another user of this machine, without the variables of ours."""
    group = pwd.getpwnam(OTHER).pw_gid
    return subprocess.run(
        command,
        input=given,
        user=OTHER,
        group=group,
        extra_groups=[],
        cwd="/",
        env={"PATH": os.defpath},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def data(up: RunningUp) -> Path:
    return up.folder / ".warrener"


def broker_url(up: RunningUp) -> str:
    url: str = json.loads((data(up) / "endpoints.json").read_text())["broker_url"]
    return url


def test_all_files_of_up_are_its_users_alone(up: RunningUp) -> None:
    loose = [
        path
        for path in (data(up), *data(up).rglob("*"))
        if path.exists() and not path.is_symlink() and not path.is_socket() and path.stat().st_mode & 0o077
    ]
    assert loose == []


@attack("another user", "reads the store, the password or Erlang's cookie of `warrener up`", refused="0700")
@as_root
def test_another_user_reads_no_file_of_up(up: RunningUp) -> None:
    for name in ("state.db", "endpoints.json", "broker.password", "broker/home/.erlang.cookie"):
        read = as_other("cat", str(data(up) / name))
        assert "Permission denied" in read.stderr, name
    assert as_other("ls", str(data(up))).returncode != 0


@attack("another user", "connects to the broker of `warrener up` as guest/guest", refused="random password")
def test_the_broker_of_up_has_no_known_password(up: RunningUp) -> None:
    address = urlsplit(broker_url(up))
    assert address.password not in {None, "guest"}
    known = f"amqp://guest:guest@{address.hostname}:{address.port}/"
    with pytest.raises(Exception, match="ACCESS_REFUSED"):
        count_messages(known, "warrener.requests")


@attack("another host", "connects to Erlang's distribution of `warrener up`", refused="loopback alone")
def test_no_port_of_up_is_open_to_other_hosts(up: RunningUp) -> None:
    listening = {
        (connection.laddr.ip, connection.laddr.port)
        for process in up.everything()
        for connection in process.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    }
    port = urlsplit(broker_url(up)).port
    assert port is not None
    assert {port, port + 3, port + EPMD} <= {place for _, place in listening}
    assert {host for host, _ in listening} <= {"127.0.0.1", "::1"}


@attack("another user", "finds the password in the list of processes", refused="no argument has it")
def test_no_command_line_of_up_has_the_password(up: RunningUp) -> None:
    password = urlsplit(broker_url(up)).password
    assert password
    lines = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert "warrener_scheduler" in lines
    assert password not in lines


@attack("another user", "reads the variables of the services", refused="the kernel")
@as_root
def test_another_user_reads_no_variables_of_the_services(up: RunningUp) -> None:
    for process in up.everything():
        assert "Permission denied" in as_other("cat", f"/proc/{process.pid}/environ").stderr


@attack("another user", "opens the console of `warrener up`, which has no sign-in", refused="the user's id")
@as_root
def test_another_user_gets_no_page_of_the_console(up: RunningUp) -> None:
    address: str = up.events("ready")[-1]["console_url"]
    url = urlsplit(address)
    program = (
        "import socket, sys\n"
        f"s = socket.create_connection(('127.0.0.1', {url.port}))\n"
        "s.settimeout(20)\n"
        "s.sendall(b'GET /api/v1/jobs HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n')\n"
        "print(s.recv(100))\n"
    )
    other, own = as_other("/usr/bin/python3", "-c", program), up.command("jobs", "--json")
    assert "HTTP" not in other.stdout
    assert "ConnectionResetError" in other.stderr or other.stdout.strip() == "b''"
    assert own.returncode == 0
    page = subprocess.run(
        ["/usr/bin/python3", "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert "200 OK" in page.stdout


@attack("another user", "sends Erlang to the node of `warrener up` by its control socket", refused="0700")
@as_root
def test_another_user_evaluates_nothing_in_the_node(up: RunningUp) -> None:
    program = (
        f"import socket; socket.socket(socket.AF_UNIX).connect({str(data(up) / 'broker' / 'control')!r})"
    )
    assert "PermissionError" in as_other("/usr/bin/python3", "-c", program).stderr
