"""What a file of holidays may have in place of dates."""


class HolidayFormatError(ValueError):
    """Says what was found; who reads the file says what was expected."""
