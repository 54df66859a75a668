"""PostgreSQL: connections, names, and its errors as ours.

Passwords come from the environment (`PGPASSWORD`) or a pgpass file, which libpq reads by itself:
none is ever held here, so none can be logged or sent to a task.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from freshet.errors import SetupError, SinkError, StoreError

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict, make_conninfo
except ModuleNotFoundError as error:
    raise SetupError(
        "PostgreSQL needs the package psycopg: pip install 'freshet[postgres]'"
    ) from error

_CONNECT_TIMEOUT_S: Final = 10
_SECRETS: Final = ("password", "sslpassword")


@dataclass(frozen=True)
class Database:
    """A database, by an address without a password; travels to tasks."""

    address: str

    @classmethod
    def at(cls, address: str) -> "Database":
        """The database at `postgresql://user@host:port/name`, or at `host=… dbname=…`."""
        try:
            parts = conninfo_to_dict(address)
        except psycopg.Error:
            # What libpq says of an address repeats it, with a password that may stand in it.
            raise SinkError(
                "the address of the database cannot be read: write it as "
                "postgresql://user@host:port/name"
            ) from None
        if any(parts.get(secret) for secret in _SECRETS):
            raise SinkError(
                "a password stands in the address of the database: take it out, and give it by "
                "PGPASSWORD or a pgpass file"
            )
        return cls(make_conninfo(**parts))

    @property
    def place(self) -> str:
        """Where it is, for people."""
        parts = conninfo_to_dict(self.address)
        host = f"{parts.get('host', 'localhost')}:{parts.get('port', 5432)}"
        return f"postgresql://{host}/{parts.get('dbname', parts.get('user', ''))}"

    @contextmanager
    def transaction(self, action: str, place: str) -> Iterator[Any]:
        """A cursor in a transaction of its own, which ends with the block: all of it or nothing."""
        told = {"connect_timeout": _CONNECT_TIMEOUT_S, "application_name": "freshet"}
        with (
            translating(action, place),
            psycopg.connect(self.address, **told) as connection,
            connection.cursor() as cursor,
        ):
            yield cursor


@contextmanager
def translating(action: str, place: str) -> Iterator[None]:
    """Errors of PostgreSQL become a `StoreError` of one line."""
    try:
        yield
    except psycopg.Error as error:
        raise StoreError(action, place, _reason(error)) from error


def _reason(error: Any) -> str:
    diagnosis = error.diag
    told = [diagnosis.message_primary or str(error), diagnosis.message_detail, diagnosis.context]
    return "; ".join(" ".join(part.split()) for part in told if part)


def name(text: str) -> str:
    """A name, quoted."""
    return '"' + text.replace('"', '""') + '"'


@dataclass(frozen=True)
class TableName:
    """A table and the schema that it is in."""

    schema: str
    table: str

    @classmethod
    def of(cls, text: str) -> "TableName":
        """`table`, or `schema.table`; the schema is `public` if none is named."""
        schema, _, table = text.rpartition(".")
        return cls(schema or "public", table)

    def beside(self, table: str) -> "TableName":
        """Another table of the same schema."""
        return TableName(self.schema, table)

    def is_there(self, cursor: Any) -> bool:
        """Whether there is such a table; whoever may not make one can ask, too."""
        cursor.execute("SELECT to_regclass(%s) IS NOT NULL", [str(self)])
        return bool(cursor.fetchone()[0])

    def __str__(self) -> str:
        return f"{name(self.schema)}.{name(self.table)}"
