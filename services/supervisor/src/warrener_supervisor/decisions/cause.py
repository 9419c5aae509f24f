"""DOC"""

import re
from collections.abc import Iterator
from hashlib import blake2b

from warrener_contracts.events import ErrorInfo

_MAX_FRAMES = 40
_MAX_TEXT = 1_000

# Frames and ends of Python's tracebacks; those of exception groups stand behind bars.
_FRAME = re.compile(r'[ |+]*File "(?P<file>[^"]*)", line \d+(?:, in (?P<function>.*))?$')
_INNER = re.compile(r"[ |]*\+[-+]+ \d+ -+$")
_RAISED = re.compile(r"(?:[ |+]*\| )?(?P<error>[A-Za-z_]\w*(?:\.\w+)*)(?::|$)")

_CHANGING = (
    (re.compile(r"\b[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}\b", re.I), "<id>"),
    (re.compile(r"\b0x[0-9a-f]+\b", re.I), "<address>"),
    (re.compile(r"'[^'\n]*'|\"[^\"\n]*\""), "<text>"),
    (re.compile(r"(?<![\w.@~+-])(?:[A-Za-z]:)?(?:[\w.@~+-]*[/\\])+[\w.@~+-]*"), "<path>"),
    (re.compile(r"\b(?=[0-9a-f]*\d)(?=\d*[a-f])[0-9a-f]{8,}\b", re.I), "<id>"),
    (re.compile(r"\d+(?:[.,:]\d+)*"), "<n>"),
    (re.compile(r"\s+"), " "),
)
"""What differs from one failure to the next of the same cause, in the order in which it is taken out."""


def fingerprint(job_type: str, error: ErrorInfo | None) -> str:
    """Twelve hexadecimal digits, the same for the same job type, class of error and way to it.

    The way is the names of files and functions on the stack, without line numbers and without folders, and
    the classes of the errors behind the error; how deep a recursion went does not count. Without a stack of
    Python it is the text, with numbers, ids, addresses, paths and quoted words taken out.
    """
    if error is None:
        return _digest(job_type)
    way = tuple(_frames(error.stack)) if error.stack else ()
    words = way or (normalised(error.stack or error.message),)
    return _digest(job_type, error.kind.value, error.type, *words)


def normalised(text: str) -> str:
    """`text` without what differs from one failure to the next."""
    text = text[:_MAX_TEXT]
    for changing, stands_for in _CHANGING:
        text = changing.sub(stands_for, text)
    return text.strip()


def _frames(stack: str) -> Iterator[str]:
    """Each frame and each class raised once, from where the error was raised to the handler.

    From its end, because a stack that is too long is kept from its end.
    """
    seen = dict.fromkeys(reversed(list(_lines(stack))))
    return (line for line, _ in zip(seen, range(_MAX_FRAMES), strict=False))


def _lines(stack: str) -> Iterator[str]:
    in_frames = False  # only what follows a frame is a class raised: a message may have lines that look so
    for line in stack.splitlines():
        if frame := _FRAME.match(line):
            yield f"{_file(frame['file'])}:{_named(frame['function'] or '')}"
            in_frames = True
        elif _INNER.match(line):
            in_frames = True
        elif in_frames and (raised := _RAISED.match(line)):
            yield raised["error"]
            in_frames = False


def _file(path: str) -> str:
    """The file's name alone: releases stand in folders of their own."""
    return _named(re.split(r"[/\\]", path)[-1])


def _named(name: str) -> str:
    """A name without the addresses and ids that generated code has."""
    for changing, stands_for in _CHANGING[:2]:
        name = changing.sub(stands_for, name)
    return name


def _digest(*parts: str) -> str:
    return blake2b("\n".join(parts).encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
