"""The jobs, as Procrastinate's workers load them."""

from procrastinate import App, PsycopgConnector
from tools.benchmarks.place import here
from tools.benchmarks.stamp import stamp

app = App(connector=PsycopgConnector(conninfo=here().database_url))


@app.task(name="noop")
async def noop(payload: str) -> int:
    """Nothing."""
    return len(payload)


@app.task(name="stamped")
async def stamped() -> None:
    """Say when it began."""
    stamp()
