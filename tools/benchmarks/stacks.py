"""Stacks that py-spy has sampled, summed up. Pure."""

import re
from collections import Counter

_TOP = 25
_LINE = re.compile(r":\d+\)$")  # of a frame in Python; one in C has none


def top(raw: str) -> str:
    """The functions of a raw profile (a stack and a count on each line) by their own share and with all they
    call. Pure."""
    own, whole, total = Counter[str](), Counter[str](), 0
    for line in raw.splitlines():
        stack, _, count = line.rpartition(" ")
        frames = [_LINE.sub(")", frame) for frame in stack.split(";")]  # not line by line
        own[frames[-1]] += int(count)
        for frame in set(frames):
            whole[frame] += int(count)
        total += int(count)
    rows = [f"{'own':>6} {'whole':>6}  of {total} samples"]
    rows += [
        f"{count / total:6.1%} {whole[frame] / total:6.1%}  {frame}" for frame, count in own.most_common(_TOP)
    ]
    return "\n".join(rows) + "\n"
