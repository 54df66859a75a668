"""record_version: positions of a change stream as strings that sort as the positions do.

A version is a row of components joined by one space, compared as text (by code point, as Spark,
Arrow and Python all do). Each component says its kind with its first letter:

    -          nothing known; sorts before everything
    N984.4~    a negative number, its digits complemented
    P0242.5    a number: first how many digits stand before the point, so that 9 sorts before 10
    T…         a moment, as microseconds and nanoseconds
    W…         other text, in its own order

Numbers are recognised by their text, since CSV has no types. In other text the characters up to `!`
are written with a `!` before them: the separator then sorts below all that can follow, and the
order of the strings is the order of the tuples.
"""

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

SEPARATOR: Final = " "
NOTHING: Final = "-"

_DECIMAL: Final = r"^-?[0-9]{1,99}(\.[0-9]*)?$"
_SCIENTIFIC: Final = r"^-?[0-9]+(\.[0-9]+)?[eE][+-]?[0-9]{1,2}$"
_MOMENT: Final = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)? ?(Z|UTC|[+-][0-9]{2}(:?[0-9]{2})?)?)?$"
)
_MICROS_BEFORE_1970: Final = 62_135_596_800_000_000
_DIGITS: Final = "0123456789"


def composed(*components: Column) -> Column:
    """Components as one version; a null component counts as nothing known."""
    return F.concat_ws(
        SEPARATOR, *(F.coalesce(component, F.lit(NOTHING)) for component in components)
    )


def without_exponent(value: Column) -> Column:
    """A value's text, with a number such as 1.7E9 written out; do this before `component`."""
    written_out = value.try_cast("decimal(38,9)").cast("string")
    return F.when(value.rlike(_SCIENTIFIC), written_out).otherwise(value)


def component(value: Column) -> Column:
    """A value of unknown kind, given as text: a number, a moment or other text."""
    moment = F.when(value.rlike(_MOMENT), value.try_cast("timestamp"))
    return (
        F.when(value.rlike(_DECIMAL), _decimal(value))
        .when(moment.isNotNull(), _moment(moment, value))
        .otherwise(words(value))
    )


def whole(value: Column) -> Column:
    """A whole number from 0 on, without leading zeros, as text or as an integer."""
    digits = value.cast("string")
    return F.concat(F.lit("P"), F.lpad(F.length(digits).cast("string"), 2, "0"), digits)


def words(value: Column) -> Column:
    """Any text, in its own order."""
    return F.concat(F.lit("W"), F.regexp_replace(value, r"([\x00-!])", "!$1"))


def _decimal(value: Column) -> Column:
    digits = F.regexp_extract(value, r"^-?0*([0-9]+)", 1)
    fraction = F.regexp_extract(value, r"\.([0-9]*?)0*$", 1)
    positive = F.concat(
        whole(digits), F.when(fraction != "", F.concat(F.lit("."), fraction)).otherwise("")
    )
    negative = F.concat(
        F.lit("N"),
        F.lpad((99 - F.length(digits)).cast("string"), 2, "0"),
        F.translate(F.concat(digits, F.lit("."), fraction), _DIGITS, _DIGITS[::-1]),
        F.lit("~"),
    )
    is_negative = value.rlike("^-.*[1-9]")
    return F.when(is_negative, negative).otherwise(positive)


def _moment(moment: Column, value: Column) -> Column:
    since_year_1 = (F.unix_micros(moment) + _MICROS_BEFORE_1970).cast("string")
    nanos = F.rpad(F.regexp_extract(value, r"\.[0-9]{6}([0-9]{1,3})", 1), 3, "0")
    return F.concat(F.lit("T"), F.lpad(since_year_1, 18, "0"), nanos)
