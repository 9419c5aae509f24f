"""Small Python projects to build, each as a tar."""

import io
import tarfile
from pathlib import Path

_GREETER = "def greet(name: str) -> str:\n    return f'Hello, {name}!'\n"
_TEST = """\
import unittest

from greeter import greet


class GreeterTest(unittest.TestCase):
    def test_a_greeting_has_the_name(self) -> None:
        self.assertEqual(greet("Ada"), "Hello, Ada!")
"""


def write_project(path: Path, *, greeter: str = _GREETER) -> Path:
    """Write the tar of a project: a module and its test."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for name, text in {
            "greeter.py": greeter,
            "tests/__init__.py": "",
            "tests/test_greeter.py": _TEST,
        }.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text.encode())
            tar.addfile(entry, io.BytesIO(text.encode()))
    return path
