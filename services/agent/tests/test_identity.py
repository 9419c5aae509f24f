"""A restarted agent has the identity of the one before; two live agents never share one."""

import subprocess
import sys
from pathlib import Path

from warrener_agent.identity import acquire_identity, default_identity_folder
from warrener_runtime.clock import SystemEntropy

ENTROPY = SystemEntropy()
HOLDER = """
import sys
from pathlib import Path
from warrener_agent.identity import acquire_identity
from warrener_runtime.clock import SystemEntropy
held = acquire_identity(Path(sys.argv[1]), ["default"], SystemEntropy())
print(held.agent_id, flush=True)
sys.stdin.read()
"""


async def test_who_comes_after_one_that_ended_takes_up_its_identity(tmp_path: Path) -> None:
    one = acquire_identity(tmp_path / "agents", ["a", "b"], ENTROPY)
    await one.release()
    again = acquire_identity(tmp_path / "agents", ["b", "a"], ENTROPY)
    assert again.agent_id == one.agent_id
    await again.release()


async def test_who_serves_other_queues_is_another(tmp_path: Path) -> None:
    one = acquire_identity(tmp_path, ["a"], ENTROPY)
    await one.release()
    other = acquire_identity(tmp_path, ["b"], ENTROPY)
    assert other.agent_id != one.agent_id
    await other.release()


def test_an_identity_has_one_holder_and_is_free_when_that_is_killed(tmp_path: Path) -> None:
    def hold() -> tuple[subprocess.Popen[str], str]:
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        return process, process.stdout.readline().strip()

    processes = [hold(), hold()]
    first, second = (name for _, name in processes)
    assert first != second
    processes[0][0].kill()
    processes[0][0].wait(10)
    processes.append(hold())
    assert processes[-1][1] == first
    for process, _ in processes:
        process.communicate()


async def test_an_agent_gets_a_new_id_where_none_can_be_stored(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    names = {acquire_identity(folder, ["a"], ENTROPY).agent_id for folder in (file, file)}
    assert len(names) == 2


async def test_a_damaged_file_is_rewritten(tmp_path: Path) -> None:
    one = acquire_identity(tmp_path, ["a"], ENTROPY)
    await one.release()
    [file] = tmp_path.iterdir()  # noqa: ASYNC240 - nobody else has this loop
    file.write_text("not a name\n")
    fresh = acquire_identity(tmp_path, ["a"], ENTROPY)
    assert fresh.agent_id != one.agent_id
    assert file.read_text() == fresh.agent_id
    await fresh.release()


def test_identities_are_stored_beside_the_ledger_if_that_is_a_file() -> None:
    assert default_identity_folder("sqlite:////var/lib/jobs/ledger.db") == Path("/var/lib/jobs/agents")
    assert default_identity_folder("sqlite:///.warrener/ledger.db") == Path(".warrener/agents")
    assert default_identity_folder("postgresql://localhost/jobs") == Path(".warrener/agents")
