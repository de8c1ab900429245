"""How alembic reaches the registry: over the connection of ``catalog.registry.database``."""

from alembic import context

from catalog.registry.tables import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
