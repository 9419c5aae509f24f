"""The `WARRENER_*` variables, as pydantic-settings reads them."""

import json
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_settings import EnvSettingsSource


class EnvironmentSource(EnvSettingsSource):
    """Lists may be written with commas (`a,b`), as people do in shells, or as JSON."""

    def decode_complex_value(self, field_name: str, field: FieldInfo, value: Any) -> Any:
        """Never fails: what cannot be read is left as it is, for pydantic to say what it expected."""
        text = str(value).strip()
        if not text.startswith(("[", "{")):
            return [part.strip() for part in text.split(",")]
        try:
            return json.loads(text)
        except ValueError:
            return text
