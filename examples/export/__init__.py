"""The daily export: a schedule, a workflow that exports the files of a day, a report, an alert."""
