"""Name the cause of a failure by a short fingerprint: one cause has one name, whatever the job's data were.

Dead letters store it, and it is compared with those of earlier versions: another normalisation makes one
cause two groups, so it changes only with a line in the changelog.
"""

import re
from collections.abc import Iterator
from hashlib import blake2b

from warrener_contracts.events import ErrorInfo

_MAX_FRAMES = 40
_MAX_TEXT = 1_000

# Frames and last lines of Python's tracebacks; those of exception groups stand behind bars.
_FRAME = re.compile(r'[ |+]*File "(?P<file>[^"]*)", line \d+(?:, in (?P<function>.*))?$')
_INNER = re.compile(r"[ |]*\+[-+]+ \d+ -+$")
_RAISED = re.compile(r"(?:[ |+]*\| )?(?P<error>[A-Za-z_]\w*(?:\.\w+)*)(?::|$)")

_EXIT_CODE = re.compile(r"(?:exited with|ended with exit code) (\d+)")

_CHANGING = (
    (re.compile(r"\b[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}\b", re.I), "<id>"),
    (re.compile(r"\b0x[0-9a-f]+\b", re.I), "<address>"),
    (re.compile(r"'[^'\n]*'|\"[^\"\n]*\""), "<text>"),
    (re.compile(r"(?<![\w.@~+-])(?:[A-Za-z]:)?(?:[\w.@~+-]*[/\\])+[\w.@~+-]*"), "<path>"),
    (re.compile(r"\b(?=[0-9a-f]*\d)(?=\d*[a-f])[0-9a-f]{8,}\b", re.I), "<id>"),
    (re.compile(r"\d+(?:[.,:]\d+)*"), "<n>"),
    (re.compile(r"\s+"), " "),
)
"""Parts that differ between failures of the same cause, in the order in which they are replaced."""


def fingerprint(job_type: str, error: ErrorInfo | None) -> str:
    """Return twelve hexadecimal digits, the same for the same job type, class of error and stack.

    The stack counts by the names of its files and functions, without line numbers and folders, and by the
    classes of the errors behind the error; the depth of a recursion does not count. An error without a
    Python stack counts by its text, with numbers, ids, addresses, paths and quoted words taken out, and by
    its exit code.
    """
    if error is None:
        return _digest(job_type)
    way = tuple(_frames(error.stack)) if error.stack else ()
    # By the exit code of a process, programs distinguish their failures.
    code = _EXIT_CODE.findall(error.message)[:1] if error.type == "ExitCode" else ()
    words = way or (normalised(error.stack or error.message), *code)
    return _digest(job_type, error.kind.value, error.type, *words)


def normalised(text: str) -> str:
    """Replace the parts of `text` that differ between failures of the same cause."""
    text = text[:_MAX_TEXT]
    for changing, stands_for in _CHANGING:
        text = changing.sub(stands_for, text)
    return text.strip()


def _frames(stack: str) -> Iterator[str]:
    """Yield each frame and class raised once, from the raise to the handler.

    Starts at the end: a stack that is too long is stored from its end.
    """
    seen = dict.fromkeys(reversed(list(_lines(stack))))
    return (line for line, _ in zip(seen, range(_MAX_FRAMES), strict=False))


def _lines(stack: str) -> Iterator[str]:
    in_frames = False  # a class raised follows a frame; a message may have lines that look like one
    for line in stack.splitlines():
        if frame := _FRAME.match(line):
            file = re.split(r"[/\\]", frame["file"])[-1]  # releases stand in folders of their own
            yield f"{_named(file)}:{_named(frame['function'] or '')}"
            in_frames = True
        elif _INNER.match(line):
            in_frames = True
        elif in_frames and (raised := _RAISED.match(line)):
            yield raised["error"]
            in_frames = False


def _named(name: str) -> str:
    """Replace addresses and ids in a name, which generated code has."""
    for changing, stands_for in _CHANGING[:2]:
        name = changing.sub(stands_for, name)
    return name


def _digest(*parts: str) -> str:
    return blake2b("\n".join(parts).encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
