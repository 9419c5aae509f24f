"""The pipeline: programs check a project out, compile, test, package and publish it; a person approves."""
