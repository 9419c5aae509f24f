"""The guide's Python compiles and uses existing names."""

import ast
import importlib
import re
from pathlib import Path

import pytest

HOWTO = Path(__file__).parents[3] / "docs" / "howto"
BLOCKS = [
    block
    for name in ("request-a-job.md", "schedule-jobs.md")
    for block in re.findall(r"```python\n(.*?)```", (HOWTO / name).read_text(encoding="utf-8"), re.DOTALL)
]


@pytest.mark.parametrize("block", BLOCKS)
def test_each_block_compiles_and_imports_what_exists(block: str) -> None:
    tree = compile(block, str(HOWTO), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST)
    for statement in ast.walk(tree):
        if isinstance(statement, ast.ImportFrom):
            module = importlib.import_module(statement.module or "")
            assert all(hasattr(module, alias.name) for alias in statement.names)


def test_there_are_blocks() -> None:
    assert len(BLOCKS) >= 6
