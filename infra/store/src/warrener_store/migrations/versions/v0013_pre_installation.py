"""The id of the installation, and what a parked message needs to be sent again. Safe under the code before:
it names its columns, and the new ones may be empty."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"

_ID = sa.Uuid().with_variant(sa.CHAR(36), "sqlite")
_PARKED = ("exchange", "routing_key", "message_id", "type", "headers")


def upgrade() -> None:
    op.create_table(
        "warrener_installation",
        sa.Column("one", sa.Integer(), primary_key=True),
        sa.Column("installation_id", _ID, nullable=False),
        sa.CheckConstraint("one = 1", name="one_installation"),
    )
    for name in _PARKED:
        op.add_column("warrener_parked", sa.Column(name, sa.Text()))
    op.add_column("warrener_parked", sa.Column("times", sa.Integer(), nullable=False, server_default="1"))


def downgrade() -> None:
    for name in ("times", *reversed(_PARKED)):
        op.drop_column("warrener_parked", name)
    op.drop_table("warrener_installation")
