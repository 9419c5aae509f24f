"""The wheels of the workspace, and which of them one needs.

They are installed by their paths, and never by name: a stranger's package of the same name cannot come in.
"""

import re
import zipfile
from dataclasses import dataclass
from email.parser import Parser
from pathlib import Path

_REQUIRED = re.compile(r"^(warrener[a-z-]*)(?P<extra>.*extra ==)?")


@dataclass(frozen=True)
class Wheelhouse:
    """A folder of wheels, one for each member; `constraints` has the versions of what others make."""

    folder: Path
    constraints: Path

    def with_siblings(self, member: str) -> list[Path]:
        """The wheel of `member`, and those of the members it needs, and that those need."""
        needed, pending = list[str](), [member]
        while pending:
            name = pending.pop()
            if name not in needed:
                needed.append(name)
                pending += self._siblings_of(name)
        return [self._wheel(name) for name in needed]

    def _wheel(self, member: str) -> Path:
        (wheel,) = self.folder.glob(f"{member.replace('-', '_')}-*.whl")
        return wheel

    def _siblings_of(self, member: str) -> list[str]:
        with zipfile.ZipFile(self._wheel(member)) as archive:
            (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
            metadata = Parser().parsestr(archive.read(name).decode())
        required = [_REQUIRED.match(line) for line in metadata.get_all("Requires-Dist", [])]
        return [found[1] for found in required if found and not found["extra"]]
