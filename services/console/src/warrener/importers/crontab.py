"""Crontab files: each line becomes a schedule of a job type that runs its `command` in a shell. Pure."""

import re
import shlex
from dataclasses import dataclass, field

from pydantic import ValidationError

from warrener.importers import ImportResult
from warrener.options import field_problem
from warrener_contracts.events import SchedulePutData
from warrener_contracts.schedule_rules import CronRule
from warrener_contracts.templates import escape_placeholders

_VARIABLE = re.compile(r"""\s*(?P<name>[A-Za-z_]\w*|"[^"]*"|'[^']*')\s*=\s*(?P<value>.*?)\s*$""")
_MACRO = re.compile(r"\s*(?P<when>@\w+)\s+(?P<rest>\S.*)$")
_FIELDS = re.compile(r"\s*(?P<when>\S+\s+\S+\s+\S+\s+\S+\s+\S+)\s+(?P<rest>\S.*)$")
_NON_WORD = re.compile(r"[^A-Za-z0-9_-]+")
_SHELLS = frozenset({"/bin/sh", "sh", "/usr/bin/sh"})
_ZONE = "CRON_TZ"


@dataclass
class _Reader:
    """Reads the lines in order: a variable applies to the lines after it."""

    job_type: str
    timezone: str
    prefix: str
    system: bool
    variables: dict[str, str] = field(default_factory=dict[str, str])
    names: dict[str, int] = field(default_factory=dict[str, int])
    found: ImportResult = field(default_factory=ImportResult)

    def line(self, number: int, line: str) -> None:
        text = line.strip()
        if not text or text.startswith("#"):
            return
        where = f"line {number}"
        if variable := _VARIABLE.match(line):
            self._variable(where, _unquoted(variable["name"]), _unquoted(variable["value"]))
        elif (found := _MACRO.match(line) or _FIELDS.match(line)) is None:
            self.found.leave_out(where, f"expected five fields or a macro, and a command, got {text!r:.80}")
        elif found["when"].lower() == "@reboot":
            why = "@reboot: not a time; run the job when the machine or the agent starts"
            self.found.leave_out(where, why)
        else:
            self._entry(where, found["when"], found["rest"])

    def _variable(self, where: str, name: str, value: str) -> None:
        if name == _ZONE:
            self.timezone = value
        elif name == "MAILTO":
            if value:
                why = f"MAILTO={value}: no mail is sent; an escalation policy says whom a dead job alerts"
                self.found.differ(where, why)
        elif name == "SHELL":
            if value not in _SHELLS:
                self.found.differ(where, f"SHELL={value}: the job type {self.job_type} chooses the shell")
        elif name == "RANDOM_DELAY":
            self.found.differ(where, f"RANDOM_DELAY={value}: choose a jitter")
        else:
            self.variables[name] = value

    def _entry(self, where: str, when: str, rest: str) -> None:
        if self.system:
            user, _, rest = rest.partition(" ")
            if not rest.strip():
                return self.found.leave_out(where, f"expected a user and a command, got {user!r}")
            self.found.differ(where, f"it ran as {user}: its job runs as the agent's user")
        command, stdin = _percent(rest.strip())
        try:
            definition = SchedulePutData(
                name=self._name(command),
                rule=CronRule(expression=" ".join(when.split())),
                timezone=self.timezone,
                job_type=self.job_type,
                arguments={"command": escape_placeholders(_script(command, stdin, self.variables))},
            )
        except ValidationError as error:
            return self.found.leave_out(where, field_problem(error.errors()[0]))
        return self.found.add(where, definition)

    def _name(self, command: str) -> str:
        """Derive the name from the program, so that a second import gives the same."""
        first = (command.split(maxsplit=1) or [""])[0].rpartition("/")[2]
        word = _NON_WORD.sub("-", first).strip("-")[:40] or "command"
        self.names[word] = self.names.get(word, 0) + 1
        number = self.names[word]
        return f"{self.prefix}.{word}" if number == 1 else f"{self.prefix}.{word}-{number}"


def import_schedules(
    text: str, *, job_type: str, timezone: str = "UTC", prefix: str = "crontab", system: bool = False
) -> ImportResult:
    """Convert a crontab; `system`: each line names a user."""
    reader = _Reader(job_type, timezone, prefix, system)
    for number, line in enumerate(text.splitlines(), start=1):
        reader.line(number, line)
    return reader.found


def _percent(text: str) -> tuple[str, str | None]:
    """Split at the first `%` into command and standard input. Later ones are new lines, `\\%` is a `%`."""
    command, *lines = (part.replace("\\%", "%") for part in re.split(r"(?<!\\)%", text))
    return command, "\n".join(lines) + "\n" if lines else None


def _script(command: str, stdin: str | None, variables: dict[str, str]) -> str:
    """A shell script that does what cron did."""
    lines = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    fed = command if stdin is None else f"printf %s {shlex.quote(stdin)} | {{ {command}\n}}"
    return "\n".join([*lines, fed])


def _unquoted(text: str) -> str:
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
    return text[1:-1] if quoted else text
