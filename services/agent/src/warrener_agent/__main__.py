"""`python -m warrener_agent MODULE …`: serve the jobs of these modules."""

from warrener_agent.command import app


def main() -> None:
    """The console script."""
    app(prog_name="warrener-agent")


if __name__ == "__main__":
    main()
