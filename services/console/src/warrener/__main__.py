"""`warrener`, and `python -m warrener`."""


def main() -> None:
    """The console script."""
    from warrener.command.app import app  # noqa: PLC0415 - an interrupt during the import is quiet too

    app(prog_name="warrener")


if __name__ == "__main__":
    main()
