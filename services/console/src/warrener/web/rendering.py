"""Rendering of views: Jinja templates with autoescape, the macros `ui`, and what every template may use."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, cast
from urllib.parse import urlencode
from uuid import UUID
from zoneinfo import ZoneInfo

from jinja2 import Environment, PackageLoader, StrictUndefined
from pydantic import BaseModel

from warrener.operations.masking import Masker
from warrener.operations.roles import Principal
from warrener.render.outcomes import OUTCOME_TONES
from warrener.render.times import MOMENT, brief, span, time_in_zone
from warrener.render.tones import STATE_SIGNS, Tone
from warrener.web.page import Page, View
from warrener.web.site import NAVIGATION, Site
from warrener.web.static_files import static_url
from warrener_contracts.state_machine import JobState
from warrener_store.jobs.rows import AttemptOutcome

Theme = Literal["auto", "light", "dark"]
_MAX_JSON = 16_000  # characters of one document on a page
_NOTHING = "\N{EN DASH}"
_OUTCOME_SIGNS = {
    Tone.GOOD: "●",
    Tone.ERROR: "✗",
    Tone.WARNING: "▲",
    Tone.LIVE: "◐",
    Tone.SOFT: "○",
}


def theme_of(cookies: Mapping[str, str]) -> Theme:
    """The reader's choice of colours."""
    theme = cookies.get("theme")
    return cast("Theme", theme) if theme in {"light", "dark"} else "auto"


@dataclass(frozen=True, slots=True)
class Reader:
    """The person before the page. A shared live fragment has no CSRF token: the page's script fills it in."""

    principal: Principal
    zone: ZoneInfo
    theme: Theme = "auto"
    csrf_token: str = ""


@dataclass(frozen=True, slots=True)
class Notice:
    """A sentence on top of a page: the end of an action."""

    sentence: str
    accepted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendering:
    """All that one rendering needs. `url`: path and query of the page; `page`: None for a problem."""

    page: Page | None
    view: View
    reader: Reader
    now: datetime
    url: str
    notice: Notice | None = None


class Renderer:
    """Renders views of one site."""

    def __init__(self, site: Site, masker: Masker) -> None:
        self._site = site
        self._environment = Environment(
            loader=PackageLoader("warrener.web", "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )

        def write_json(value: Any) -> str:
            return _as_json(masker.value(value))

        filters: dict[str, Any] = {
            "brief": _brief,
            "as_json": write_json,
            "masked": masker.text,
            "count": count,
        }
        for name, body in filters.items():
            self._environment.filters[name] = body
        variables = cast(
            "dict[str, Any]", self._environment.globals
        )  # its type knows the built-in ones alone
        variables |= {"static": static_url, "url_for": site.url_for, "badge_of": badge_of}

    def page(self, wanted: Rendering) -> str:
        """Render a whole page."""
        return self._render("layout.html", wanted)

    def content(self, wanted: Rendering) -> str:
        """Render the content of a page alone."""
        return self._render("parts/content.html", wanted)

    def standalone(self, template: str, variables: Mapping[str, Any]) -> str:
        """Render a template that shows nothing of the site, such as the sign-in form."""
        return self._environment.get_template(template).render(variables)

    def notice(self, notice: Notice) -> str:
        """Render a notice alone."""
        return self._environment.get_template("parts/notice.html").render(notice=notice)

    def _render(self, layout: str, wanted: Rendering) -> str:
        variables = self._variables(wanted) | {"layout": self._environment.get_template(layout)}
        macros = self._environment.get_template("parts/ui.html").make_module(variables)
        template = self._environment.get_template(wanted.view.template)
        return template.render({**variables, **wanted.view.context, "ui": macros})

    def _variables(self, wanted: Rendering) -> dict[str, Any]:
        reader, now = wanted.reader, wanted.now
        site, role = self._site, reader.principal.role

        def may(action: str) -> bool:
            found = site.actions.get(action)
            return found is not None and role.allows(found.role)

        def needs_reason(action: str) -> bool:
            return site.actions[action].needs_reason

        def may_open(name: str) -> bool:
            return name in site.pages and role.allows(site.pages[name].role)

        def relative(moment: datetime) -> str:
            return relative_words(moment, now)

        def absolute(moment: datetime) -> str:
            return time_in_zone(moment, now, reader.zone)

        def local_times(text: str) -> str:
            return MOMENT.sub(lambda found: absolute(datetime.fromisoformat(found.group())), text)

        return {
            "title": wanted.view.title,
            "refresh": wanted.view.refresh or (wanted.page.refresh if wanted.page else None),
            "page": wanted.page,
            "url": wanted.url,
            "notice": wanted.notice,
            "principal": reader.principal,
            "zone": reader.zone,
            "theme": reader.theme,
            "csrf_token": reader.csrf_token,
            "now": now,
            "may": may,
            "needs_reason": needs_reason,
            "relative": relative,
            "absolute": absolute,
            "local_times": local_times,
            "with_query": _with_query,
            "navigation": [entry for entry in NAVIGATION if may_open(entry.section)],
        }


def badge_of(state: Any) -> tuple[str, str, str]:
    """Sign, word and tone of a state of a job, an outcome of an attempt, or a pair (word, tone)."""
    if isinstance(state, JobState):
        sign, tone = STATE_SIGNS[state]
        return sign, state.value, tone.value
    if isinstance(state, AttemptOutcome):
        tone = OUTCOME_TONES[state]
        return _OUTCOME_SIGNS[tone], state.value.replace("_", " "), tone.value
    if isinstance(state, str) and state in {each.value for each in JobState}:
        return badge_of(JobState(state))
    word, tone = (state, Tone.SOFT) if isinstance(state, str) else (state[0], Tone(state[1]))
    return _OUTCOME_SIGNS[tone], str(word).replace("_", " "), tone.value


def relative_words(moment: datetime, now: datetime) -> str:
    """`now`, `4 s ago`, `5 min ago`, `in 2 h 10 min`: as coarse as console.js writes it."""
    gone = now - moment
    seconds = abs(gone.total_seconds())
    if seconds < 1:
        return "now"
    length = f"{seconds:.0f} s" if seconds < 10 else span(gone, units=1 if seconds < 3600 else 2)
    return f"{length} ago" if gone > timedelta(0) else f"in {length}"


def count(number: float | None) -> str:
    """A number with thin spaces between its thousands."""
    return _NOTHING if number is None else f"{number:,}".replace(",", "\u202f")


def _brief(length: timedelta | float | None) -> str:
    if length is None:
        return _NOTHING
    return brief(length if isinstance(length, timedelta) else timedelta(seconds=length))


def _as_json(value: Any) -> str:
    text = json.dumps(value, indent=2, ensure_ascii=False, default=_plain)
    if len(text) <= _MAX_JSON:
        return text
    return f"{text[:_MAX_JSON]}\n… {len(text):,} characters in all; the API has them"


def _plain(value: Any) -> Any:
    match value:
        case datetime():
            return value.astimezone(UTC).isoformat()
        case UUID():
            return str(value)
        case BaseModel():
            return value.model_dump(mode="json")
        case _:
            return str(value)


def _with_query(query: Mapping[str, str], **changes: str | None) -> str:
    """A query string with some parameters changed; None removes one."""
    changed = {key: value for key, value in {**query, **changes}.items() if value not in {None, ""}}
    return f"?{urlencode(changed)}" if changed else "?"
