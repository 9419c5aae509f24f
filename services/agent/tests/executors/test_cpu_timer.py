"""A handler is stopped by the processor time that it has used, and not by the ticks that found it running."""

import json
import subprocess
import sys

import pytest

from warrener_agent.executors.sandbox import rlimit_cpu

STORY = """
import json, resource, signal, sys, time
from warrener_agent.executors.sandbox import apply_limits

struck = []
signal.signal(signal.SIGXCPU, lambda *_: struck.append(time.process_time()))

def use(seconds):
    until = time.process_time() + seconds
    while time.process_time() < until and not struck:
        pass

used = []
for _ in range(3):
    began = time.process_time()
    with apply_limits([], 0.12):
        use(0.1)
    assert not struck, "it may use more"
    use(0.05)
    assert not struck, "it is over"
    with apply_limits([], 0.12):
        began = time.process_time()
        use(5)
    used.append(struck.pop() - began)
assert resource.getrlimit(resource.RLIMIT_CPU)[0] == resource.RLIM_INFINITY
print(json.dumps(used))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has timers of processor time")
def test_each_attempt_of_a_warm_child_has_all_of_its_time_and_no_second_more() -> None:
    run = subprocess.run(
        [sys.executable, "-c", STORY], check=True, capture_output=True, text=True, timeout=60
    )
    used = json.loads(run.stdout)
    assert len(used) == 3
    assert all(0.11 < seconds < 0.35 for seconds in used), used


def test_ticks_that_run_ahead_do_not_end_an_attempt_early() -> None:
    """On a busy machine a process that had used 1.2 s was charged 2.3 s, so that its third attempt of 1 s
    could use 0.7 s."""
    assert rlimit_cpu(1.0, used=2.3) >= 2.3 + 2
    assert rlimit_cpu(0.25) > 1
    assert rlimit_cpu(1.0, used=1.2, exact=True) == 3
