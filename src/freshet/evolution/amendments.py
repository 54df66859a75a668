"""What people do to the schema: accept what was held back, or go back to a version. Pure."""

from collections.abc import Collection, Iterable, Iterator, Sequence

from freshet.errors import SchemaError
from freshet.evolution.schema import Entry, Event, Held, Schema
from freshet.evolution.types import Kind, column_name, widened


def acceptance(
    schema: Schema, columns: Sequence[str] = (), *, in_index: Collection[str] = ()
) -> list[Entry]:
    """Entries that take what is pending or rescued: of some columns with all inside, or of all.

    What was rolled back is taken only if it is named. A column that is rolled back but still has
    old values in the index cannot be taken yet.
    """
    wanted = [
        held
        for held in schema.held.values()
        if held.what is not Event.CONFLICT
        and (_is_named(held, columns) if columns else held.column not in schema.rejected)
    ]
    for name in columns:
        if not any(_is_in(held.column, name) for held in wanted):
            known = ", ".join(dict.fromkeys(held.column for held in schema.held.values()))
            raise SchemaError(
                f"nothing waits to be accepted of a column {name}"
                + (f": it could be {known}" if known else "")
            )
    # What came since a rollback says more of the source than what was rolled back.
    wanted.sort(key=lambda held: held.first.what is Event.ROLLED_BACK and not held.records)
    return list(_accepted(schema, wanted, in_index))


def _accepted(schema: Schema, wanted: Iterable[Held], in_index: Collection[str]) -> Iterator[Entry]:
    working = schema
    for held in wanted:
        column = working.columns.get(held.column)
        known = column.kind if column is not None and column.is_taken else None
        is_conflict = known is not None and widened(known, held.seen) is not held.seen
        if is_conflict and held.what is not Event.PENDING:
            continue
        if known is None:
            _check_gone(schema, held.column, in_index)
        entry = Entry(
            Event.ACCEPTED,
            held.column,
            known,
            held.seen,
            file=held.first.file,
            seq=held.first.seq,
            row=held.first.row,
        )
        working = working.after([entry])
        yield entry


def _is_named(held: Held, columns: Iterable[str]) -> bool:
    return any(_is_in(held.column, name) for name in columns)


def _is_in(path: str, name: str) -> bool:
    return path == name or path.startswith((f"{name}.", f"{name}[]"))


def _check_gone(schema: Schema, path: str, in_index: Collection[str]) -> None:
    """Values of before the rollback must have left, or they would stand beside those of after."""
    column, name = schema.columns.get(path), column_name(path)
    if column is not None and not column.is_taken and name in in_index:
        raise SchemaError(
            f"the column {path} was rolled back and has not left the index yet: "
            "`freshet run --once` first"
        )


def rollback(
    now: Schema, then: Schema, *, newest_file: int, in_index: Collection[str] = ()
) -> list[Entry]:
    """Entries after which the schema is what it was; none if it is the same.

    Files up to the newest one were read with the schema of now, and stay so.
    """
    here, there = now.shape, then.shape
    entries = []
    for path, kind in here.items():
        kept = there.get(path)
        if kept is not kind and (kept is None or widened(kept, kind) is not kept):
            entries.append(_given_up(path, kind, kept, newest_file))
    for path, kind in there.items():
        have = here.get(path)
        if have is None:
            _check_gone(now, path, in_index)
        if have is None or (have is not kind and widened(have, kind) is kind):
            entries.append(Entry(Event.ACCEPTED, path, have, kind))
    return entries


def _given_up(path: str, kind: Kind, kept: Kind | None, newest_file: int) -> Entry:
    # A type of another family cannot come back into the column: it leaves.
    back_to = kept if kept is not None and widened(kept, kind) is kind else None
    return Entry(Event.ROLLED_BACK, path, kind, back_to, last_seq=newest_file)
