"""How the command ends, and the one error that it ends with."""

from enum import IntEnum


class ExitCode(IntEnum):
    """The exit codes; documented in `docs/reference/command.md`."""

    OK = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3  # the broker or the store does not answer, or refuses
    NOT_SUCCESSFUL = 4  # --wait: the job is over, and has no result
    INTERRUPTED = 130


class CommandError(Exception):
    """Said to the user as it stands: what was expected, what came, and what to do."""

    def __init__(self, sentence: str, *, do: str | None = None, code: ExitCode = ExitCode.FAILED) -> None:
        self.sentence, self.do, self.code = sentence, do, code
        super().__init__(f"{sentence}; {do}" if do else sentence)
