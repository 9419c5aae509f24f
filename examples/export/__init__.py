"""The daily export: a schedule, a workflow that loads the files of a folder, a summary, alerts."""
