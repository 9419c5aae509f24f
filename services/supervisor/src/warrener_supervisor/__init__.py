"""The supervisor: decides whether it went well. It judges outcomes, watches time and agents, retries and
buries."""

SOURCE = "warrener/supervisor"
