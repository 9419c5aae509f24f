"""Programs as job types (issue 4, isolation)."""

import asyncio
import os
import re
import sys
from datetime import date
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pydantic import BaseModel
from services.agent.tests.processes import until_gone, until_written
from services.agent.tests.stage import LONG, HastenedClock, Stage

from warrener_agent import Agent, JobDefinitionError, Limits, Program, Recycle
from warrener_agent.definitions.program import BadArgument
from warrener_agent.executors import program_supervisor
from warrener_agent.testing import run
from warrener_contracts.events import AttemptCancelled, AttemptFailed, ErrorInfo
from warrener_contracts.templates import escape_placeholders


class Words(BaseModel):
    words: list[str] = []
    day: date | None = None
    many: int = 1


def python(code: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", escape_placeholders(code), *arguments]


def serving(program: Program, **options: Any) -> Agent:
    agent = Agent()
    agent.command("it", program, arguments=Words, **options)
    return agent


async def failed(agent: Agent, **arguments: object) -> ErrorInfo:
    trial = await run(agent, "it", arguments)
    assert trial.error is not None, trial.result
    return trial.error


async def test_arguments_are_templated_without_a_shell_and_given_as_json() -> None:
    show = "import json, sys; print(json.dumps({'argv': sys.argv[1:], 'stdin': json.load(sys.stdin)}))"
    program = Program(
        python(show, "--day={{ day }}", "n{{ many }}{{{{}}", "--", "{{ words }}", "{{ day | %d.%m.%Y }}")
    )
    words = ["two words", "$(reboot)", "-rf", "; echo", ""]
    trial = await run(serving(program, result=dict), "it", {"words": words, "day": "2026-01-02", "many": 3})
    assert trial.error is None, trial.error
    assert trial.result == {
        "argv": ["--day=2026-01-02", "n3{{}}", "--", *words, "02.01.2026"],
        "stdin": {"words": words, "day": "2026-01-02", "many": 3},
    }


async def test_a_value_is_never_taken_for_an_option() -> None:
    error = await failed(serving(Program(["ls", "{{ words }}"])), words=["--color"])
    assert (error.kind, error.retryable) == ("bad_arguments", False)
    assert "option" in error.message
    program = Program(["echo", "{{ many }}", "{{ day }}"])
    assert (await run(serving(program), "it", {"many": -3})).result == "-3\n"


@pytest.mark.parametrize(
    ("template", "value", "message"),
    [
        *(
            (template, value, "expected a text")
            for template in ("{{ it }}", "--it={{ it }}")
            for value in ("a\0b", {"not": "plain"})
        ),
        *(("data/{{ it }}", value, "it: expected a text, a number or a time") for value in (None, [], ["a"])),
        ("{{ it }}" * 1_000, "x" * 1_000_000, "characters together"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_no_argument_can_carry_is_refused(template: str, value: object, message: str) -> None:
    """NUL, and null and lists within a longer argument, and a text of unbounded length."""
    with pytest.raises(BadArgument, match=message):
        Program(["echo", template]).make_call({"it": value}, "text")


@pytest.mark.parametrize(
    ("argv", "options", "message"),
    [
        (["echo", "{{ unknown }}"], {}, "expected one of words, day, many, got '{{ unknown }}'"),
        (["echo"], {"cwd": "{{ unknown }}"}, "expected one of words, day, many"),
        (["echo"], {"variables": {"X": "{{ unknown }}"}}, "expected one of words, day, many"),
        (["echo", "{{ words | %Y }}"], {}, "expected a format only after day"),
        (["{{ words }}"], {}, "got a template"),
        ([], {}, "as a list"),
        ("echo hello", {}, "as a list"),
        (["echo"], {"environment": "PATH"}, "one string"),
        (["echo"], {"umask": 0o1000}, "umask"),
        (["echo"], {"recycle": Recycle()}, "recycle"),
    ],
)
def test_an_unusable_program_is_refused_where_it_is_declared(
    argv: Any, options: dict[str, Any], message: str
) -> None:
    own = {name: options.pop(name) for name in ("cwd", "variables") if name in options}
    with pytest.raises((JobDefinitionError, ValueError), match=re.escape(message)):
        serving(Program(argv, **own), **options)


def test_limits_belong_to_processes() -> None:
    agent = Agent()
    with pytest.raises(JobDefinitionError, match=r'executor "process" with limits'):

        @agent.job("it", limits=Limits(memory="1GiB"))
        def it() -> None: ...

    with pytest.raises(ValueError, match="512MiB"):
        Limits(memory="much")
    with pytest.raises(ValueError, match="above 0"):
        Limits(cpu=0)


async def test_the_result_is_text_json_or_nothing() -> None:
    assert (await run(serving(Program(["echo", "hello"])), "it")).result == "hello\n"
    assert (await run(serving(Program(["echo", "hello"]), result=None), "it")).result is None
    assert (await run(serving(Program(["echo", "[1, 2]"]), result=list[int]), "it")).result == [1, 2]
    wrong = serving(Program(["echo", "[1, []]"]), result=list[int])
    assert (await failed(wrong)).kind == "bad_result"
    assert "not json" in (await failed(serving(Program(["echo", "hello"]), result=dict))).message
    assert "NaN is no JSON" in (await failed(serving(Program(["echo", "[NaN]"]), result=list))).message
    much = serving(Program(python("print('x' * 3_000_000)")))
    assert "at most 1048576 bytes" in (await failed(much)).message


async def test_exit_codes_decide_what_follows() -> None:
    program = Program(
        python("import sys; print('so it is', file=sys.stderr); sys.exit(int(sys.argv[1]))", "{{ many }}"),
        ok=(0, 3),
        no_retry_on=(65,),
        retry_after={75: "5m"},
    )
    agent = serving(program)
    assert (await run(agent, "it", {"many": 3})).succeeded
    plain, final = [await failed(agent, many=many) for many in (1, 65)]
    assert (plain.kind, plain.type, plain.retryable, final.retryable) == ("error", "ExitCode", True, False)
    assert plain.message.endswith("to exit with 0 or 3, it exited with 1: so it is")
    assert plain.flight_record is not None
    assert plain.flight_record.log == "so it is\n"
    assert plain.flight_record.memory_bytes
    assert (await run(agent, "it", {"many": 75})).retry_after_seconds == 300
    printed = serving(
        Program(python("print('not this'); print('so it is'); raise SystemExit(1)")), result=None
    )
    assert (await failed(printed)).message.endswith("it exited with 1: so it is")
    secret = serving(Program(python("print('[1]'); raise SystemExit(1)")), result=list[int])
    assert (await failed(secret)).message.endswith("it exited with 1")


async def test_it_has_a_folder_of_its_own_and_knows_its_job(tmp_path: Path) -> None:
    show = "import os, json; print(json.dumps([os.getcwd(), os.environ['WARRENER_JOB_ID']]))"
    job_id = uuid4()
    trial = await run(serving(Program(python(show)), result=list[str]), "it", job_id=job_id)
    assert trial.error is None, trial.error
    folder, output = trial.result
    assert output == str(job_id)
    assert folder != str(Path.cwd())
    assert not await asyncio.to_thread(Path(folder).exists)
    trial = await run(serving(Program(["pwd"], cwd=str(tmp_path), variables={"X": "{{ many }}"})), "it")
    assert trial.result == f"{tmp_path}\n"


async def test_secrets_are_not_in_its_environment_unless_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BANK_TOKEN", "x")
    monkeypatch.setenv("SHOP_TOKEN", "asked for")
    program = Program(["env"], variables={"DAY": "{{ many }}"})
    output = (await run(serving(program, environment=("SHOP_TOKEN",)), "it")).result
    assert "BANK_TOKEN" not in output
    assert "SHOP_TOKEN=asked for\n" in output
    assert "DAY=1\n" in output


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become somebody else")
async def test_it_may_run_as_another_user_with_a_umask_of_its_own() -> None:
    program = Program(["sh", "-c", "id -un; umask; touch mine && echo $HOME"])
    trial = await run(serving(program, user="nobody", umask=0o027), "it")
    assert trial.error is None, trial.error
    name, umask, _ = trial.result.splitlines()
    assert (name, umask) == ("nobody", "0027")


async def test_a_missing_program_is_named_and_nothing_that_a_program_has_started_outlives_it() -> None:
    error = await failed(serving(Program(["no-such-program-here"])))
    assert error.type == "CannotRun"
    assert "no-such-program-here" in error.message
    code = "import subprocess; print(subprocess.Popen(['sleep', '600'], start_new_session=True).pid)"
    trial = await run(serving(Program(python(code)), result=int), "it")
    assert trial.error is None, trial.error
    await until_gone([trial.result])


async def test_limits_hold_for_programs_and_each_has_its_error_type() -> None:
    spin = serving(Program(python("while True: pass")), limits=Limits(cpu="1s"))
    assert (await failed(spin)).type == "CpuTimeLimit"
    grow = serving(
        Program(python("x = []\nwhile True: x.append(b'x' * 999_999)")), limits=Limits(memory="100MiB")
    )
    assert (await failed(grow)).type == "OutOfMemory"
    fork = "import os, time\nfor _ in range(3): os.fork() or time.sleep(600)\ntime.sleep(600)"
    assert (await failed(serving(Program(python(fork)), limits=Limits(processes=3)))).type == "ProcessLimit"
    write = "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_DFL); open('x', 'w').write('x' * 9999)"
    assert (
        await failed(serving(Program(python(write)), limits=Limits(file_size=100)))
    ).type == "FileSizeLimit"
    die = serving(Program(["sh", "-c", "kill -SEGV 0"]))
    assert ((await failed(die)).kind, (await failed(die)).type) == ("crash", "SIGSEGV")


@pytest.mark.parametrize("why", ["timeout", "cancel"])
async def test_a_program_that_hangs_is_killed_with_all_that_it_started(
    stage: Stage, tmp_path: Path, why: str
) -> None:
    pids, clock = tmp_path / "pids", HastenedClock()
    code = f"""
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if not os.fork():
    os.setsid()
    os.fork()  # and the one above is orphaned, as a daemon is
print("hanging", file=sys.stderr, flush=True)
open({str(pids)!r}, "a").write(f"{{os.getpid()}}\\n")
time.sleep(600)
"""
    agent = serving(Program(python(code), stdin="nothing"))
    await stage.enter(agent, agent_announce_delay=0.0, clock=clock, agent_claim_ttl=3600.0)
    job = await stage.dispatch("it", timeout=LONG)
    await until_written(pids, 3)
    if why == "timeout":
        clock.skip(LONG)
        error = (await stage.wait_for_event(AttemptFailed, job)).data.error
        assert error.kind == "timeout"
        record = error.flight_record
    else:
        await stage.cancel(job)
        record = (await stage.wait_for_event(AttemptCancelled, job)).data.flight_record
    assert record is not None
    assert record.processes == 3
    assert "hanging" in (record.log or "")
    assert "Process" in (record.stacks or "")
    await until_gone([int(pid) for pid in pids.read_text().split()])


async def test_a_program_dies_with_its_agent(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = f"""
import asyncio
from warrener_agent import Agent, Program
from warrener_agent.testing import run
agent = Agent()
agent.command("it", Program(["sh", "-c", "echo $$ > {pids}; sleep 600"]))
asyncio.run(run(agent, "it"))
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", script)
    await until_written(pids, 1)
    process.kill()
    await process.wait()
    await until_gone([int(pids.read_text())])


DYING_AGENT = """
import json, os, signal, socket, subprocess, sys, time
ours, theirs = socket.socketpair()
request = {"argv": ["sleep", "1000"], "cwd": "/", "umask": None, "user": None, "limits": []}
request["control"] = theirs.fileno()
command = [sys.executable, "-I", "-S", sys.argv[1], json.dumps(request)]
supervisor = subprocess.Popen(command, pass_fds=[theirs.fileno()], start_new_session=True)
theirs.close()
ours.sendall(b"\\n")
look = ["pgrep", "-P", str(supervisor.pid), "sleep"]
while not (children := subprocess.run(look, capture_output=True, text=True).stdout):
    time.sleep(0.02)
for pid in (supervisor.pid, int(children)):
    os.kill(pid, signal.SIGSTOP)
print(supervisor.pid, children)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel continues it")
async def test_an_agent_that_dies_in_the_midst_of_a_kill_leaves_nothing_that_is_stopped() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", DYING_AGENT, program_supervisor.__file__, stdout=asyncio.subprocess.PIPE
    )
    pids, _ = await process.communicate()
    assert len(pids.split()) == 2
    await until_gone(map(int, pids.split()))
