"""Who the supervisor is on the wire."""

SOURCE = "warrener/supervisor"
