"""The images of other people are pinned by digest, and ours run without rights."""

from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # its stubs are a package of their own

ROOT = Path(__file__).parents[3]
ONE, TWO = f"sha256:{'1' * 64}", f"sha256:{'2' * 64}"
OWN = ("migrate", "scheduler", "supervisor", "agent", "console")


@pytest.fixture(scope="module")
def pin() -> ModuleType:
    """The script, which has no suffix."""
    loader = SourceFileLoader("pin", str(ROOT / "infra/images/pin"))
    spec = spec_from_loader("pin", loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


def test_all_images_of_others_are_found_and_none_of_ours(pin: Any) -> None:
    found = {name for path in pin.FILES for name in pin.images(path.read_text())}
    assert {name.partition(":")[0] for name in found} == {
        "python",
        "rabbitmq",
        "postgres",
        "jaegertracing/jaeger",
        "prom/prometheus",
        "grafana/grafana",
    }


def test_a_pin_is_written_and_renewed_and_the_rest_stays(pin: Any) -> None:
    text = "FROM python:3.13-slim AS build\n    image: prom/prometheus:v3\n    image: warrener-agent\n"
    first = pin.pinned(text, {"python:3.13-slim": ONE, "prom/prometheus:v3": ONE}.__getitem__)
    assert first.splitlines()[0] == f"FROM python:3.13-slim@{ONE} AS build"
    assert pin.images(first) == {"python:3.13-slim": ONE, "prom/prometheus:v3": ONE}
    assert pin.pinned(first, dict.fromkeys(pin.images(first), TWO).__getitem__) == first.replace(ONE, TWO)
    assert first.replace(f"@{ONE}", "") == text


def test_each_of_our_containers_has_no_rights_and_a_read_only_root() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    for name in OWN:
        service = services[name]
        assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"]), name
        assert service["security_opt"] == ["no-new-privileges:true"], name


def test_our_images_run_as_a_number(pin: Any) -> None:
    image = (ROOT / "infra/images/Dockerfile").read_text()
    assert image.count("\nUSER ") == 1
    assert "\nUSER 10001:10001\n" in image
