"""The file-processing story: a folder of daily files, one job that lists them, one job that loads each."""
