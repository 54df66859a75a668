"""Reading JSON records as VARIANT: the few expressions that all envelopes are made of."""

from collections.abc import Callable, Generator

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from freshet.errors import SettingsError


def parsed(text: Column) -> Column:
    """The JSON value of a text; SQL null if the text is not exactly one JSON value.

    Spark's parser stops after the first value and ignores what follows, so `{"id":1}{"id":2}` would
    lose a record. Between brackets, whatever follows the value makes the array invalid or longer.
    """
    array = F.try_parse_json(F.concat(F.lit("["), text, F.lit("]")))
    has_one = F.try_variant_get(array, "$[1]", "variant").isNull()
    return F.when(has_one, F.try_variant_get(array, "$[0]", "variant"))


def field(value: Column, *names: str) -> Column:
    """A field, or a field of a field, as a VARIANT; SQL null if it is not there."""
    return F.try_variant_get(value, path(*names), "variant")


def text(value: Column, *names: str) -> Column:
    """A field as text: numbers in full, objects and arrays as JSON; null if absent or null."""
    return F.try_variant_get(value, path(*names), "string")


def path(*names: str) -> str:
    """The VARIANT path of a field, whatever characters its name has."""
    return "$" + "".join(f"[{_quoted(name)}]" for name in names)


def _quoted(name: str) -> str:
    for quote in ("'", '"'):
        if quote not in name and "\\" not in name:
            return f"{quote}{name}{quote}"
    raise SettingsError(f"a column name may not hold both kinds of quotes or a backslash: {name}")


def literal(text: str) -> str:
    """A text as a literal of Spark's SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


Steps = Generator[Column, Column, Column]
"""An expression in steps: what is used more than once is yielded, and comes back computed."""


def in_steps(steps: Steps) -> Column:
    """The column that the steps return; what they yield is computed once."""

    def go_on(computed: Column | None) -> Column:
        try:
            wanted = next(steps) if computed is None else steps.send(computed)
        except StopIteration as end:
            result: Column = end.value
            return result
        return computed_once(wanted, go_on)

    return go_on(None)


def computed_once(
    value: Column, use: Callable[[Column], Column], *, where: Column | None = None
) -> Column:
    """What `use` makes of a value; where it is not wanted it is null, and costs nothing.

    A CASE around it would cost nothing either, but Spark's optimizer compares all branches of one
    with each other, in every batch: with large ones that takes longer than the rest of the batch.
    """
    values = F.array(value)
    return F.transform(values if where is None else F.when(where, values), use)[0]


def named(**columns: Column) -> Column:
    """Several columns as one."""
    return F.struct(*(column.alias(name) for name, column in columns.items()))


def with_columns(rows: DataFrame, **columns: Column) -> DataFrame:
    """Adds columns as a step of its own, so that what is used twice is computed once.

    One large expression instead would repeat its parts, and outgrow what the JVM compiles.
    """
    return rows.select("*", *(column.alias(name) for name, column in columns.items()))
