"""The supervisor: judges outcomes, watches time and agents, retries jobs and stores dead letters."""

SOURCE = "warrener/supervisor"
