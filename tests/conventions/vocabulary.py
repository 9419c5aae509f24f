"""Words that the project does not use, because its readers know others for the same things.

CONTRIBUTING.md says which words to use instead.
"""

import re
from typing import Final

NAMES: Final = frozenset(
    """
    anew ask asked asking asks astray become becoming beginnings deaf desk ear ears farewell fate
    fell felled happening happenings hear heard hearing kept letter letters rehearsal rung rungs
    said say says seizure strayed tell telling tells tidings told unheard unsaid whoever wish wishes
    wished
    """.split()  # noqa: SIM905 - a list of words is read as words
)
"""Words that are no part of a module's, class's, function's or variable's name."""


def _whole(words: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{words})\b", re.IGNORECASE)


PROSE: Final = {
    "anew": _whole("anew"),
    "ask": _whole("ask|asks|asked|asking"),
    "astray": _whole("astray|strayed"),
    "clause as subject": re.compile(
        r"(?:^|(?<=[.:;] )|(?<=\"\"\"))(?:What|Whoever|Whether) [a-z](?![^.\n]*\?)", re.MULTILINE
    ),
    "become of": _whole("becomes? of|became of"),
    "deaf": _whole("deaf"),
    "felled": _whole("felled"),
    "for ever": _whole("for ever"),
    "hear": _whole("hear|hears|heard"),
    "letter": re.compile(r"(?<!dead )(?<!dead-)(?<!dead_)\bletters?\b", re.IGNORECASE),
    "no more": _whole("no more"),
    "rung": _whole("rungs?"),
    "tell": _whole("tell|tells|told"),
    "tidings": _whole("tidings"),
    "whoever": _whole("whoever"),
    "wish": _whole("wish|wishes|wished"),
}
"""Words and phrases that comments, docstrings, messages and pages do without, by a name for each."""
