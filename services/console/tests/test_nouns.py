"""The command and the API say the same of a noun, in the same JSON, which is as its schema says."""

import asyncio
import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from jsonschema import Draft202012Validator
from services.console.tests.conftest import Run
from services.console.tests.web.conftest import NO_BROKER, browser_on, filled_template, open_copy
from services.console.tests.web.filled_rooms import Filler
from services.console.tests.web.stored_jobs import ERROR, put_dead, put_workflow
from services.console.tests.web.test_dead_letters_page import REDRIVE
from tools.reference.console_api import api_schemas

from warrener.explanations.suggestions import end_hold
from warrener.operations.job import JOB
from warrener.operations.masking import Masker
from warrener.operations.noun import Noun
from warrener.web import page
from warrener.web.site import NOUNS, installed_site

__all__ = ["filled_template"]
_SHOWN = 5
_PASSING = re.compile(r'(\d[\d.]* (d|h|min|s) )+ago|"per_second": [\d.e-]+')  # in an explanation, a rate


@pytest.mark.parametrize("noun", NOUNS, ids=lambda noun: noun.plural)
def test_the_command_and_the_api_list_and_show_the_same(
    noun: Noun, filled_template: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARRENER_BROKER_URL", NO_BROKER)
    words = (noun.command or noun.word).split()

    def call(*more: str) -> Any:
        done = run(*words, *more, "--store", f"sqlite:///{tmp_path}/state.db", "--json")
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    has_words = "COMMAND" in run(*words, "--help").stdout
    listed, shown = asyncio.run(_read_api(noun, filled_template, tmp_path))
    assert len(listed) > 0
    assert timeless(call(*(["list"] if has_words else []))) == timeless(listed)
    words = ["job"] if noun is JOB else [*words, "show"] if has_words else words
    ones = [call(one[noun.key]) for one in listed[: len(shown)]]
    assert timeless(ones) == timeless(shown)


def timeless(document: Any) -> str:
    """A document without the values that change as time passes."""
    return _PASSING.sub("", json.dumps(document, sort_keys=True))


def test_each_verb_has_a_button_on_a_page() -> None:
    templates = Path(page.__file__).parent.joinpath("templates").rglob("*.html")
    offered = set(re.findall(r"\b(?:action|may)\(\"([\w.-]+)\"", "".join(map(Path.read_text, templates))))
    offered |= {one.verb for one in end_hold(uuid4(), None)}  # in the box of the cause, for a held job alone
    assert set(installed_site().actions) <= offered


async def _read_api(noun: Noun, template: Path, folder: Path) -> tuple[Any, Any]:
    parts = api_schemas()["$defs"]
    async with open_copy(template, folder) as console:
        console.masker = Masker()  # as in a terminal
        await Filler(console.store, await console.now() + timedelta(hours=1)).put_agents()  # alive throughout
        await put_dead(console.store, error=ERROR.model_copy(update={"stack": "line 31, in load"}))
        await put_workflow(console.store)
        await console.store.dead_letter_store.save_redrive(REDRIVE)
        async with browser_on(console) as client:

            async def read(path: str, route: str) -> Any:
                answer = await client.get(f"/api/v1/{noun.plural}{path}")
                assert answer.status_code == 200, answer.text
                schema = {**api_schemas()["answers"][f"GET /{noun.plural}{route}"], "$defs": parts}
                validator: Any = Draft202012Validator(schema)
                validator.validate(answer.json())
                return answer.json()

            listed = (await read("", ""))[noun.rows or noun.plural.replace("-", "_")]
            keys = [one[noun.key] for one in listed[:_SHOWN]] if noun.read is not None else []
            return listed, [await read(f"/{key}", f"/{{{noun.key}}}") for key in keys]
