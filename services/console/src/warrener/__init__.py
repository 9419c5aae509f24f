"""The `warrener` command: commands go through the broker, queries go to the store.

It holds no logic of the services and imports none of them: `up`, `agent`, `scheduler` and `supervisor` start
them as processes.
"""
