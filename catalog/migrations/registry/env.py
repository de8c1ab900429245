"""How alembic reaches the registry: over the connection that ``catalog.database`` gives it."""

from alembic import context

from catalog.tables import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
