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
order of the strings is the order of the tuples. Of two tuples that begin alike the shorter one is
the smaller; all positions of one stream have the same number of components, so that what is put
after them (the arrival) is compared with its like.
"""

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

SEPARATOR: Final = " "
NOTHING: Final = "-"

_DECIMAL: Final = r"^-?[0-9]+(\.[0-9]*)?\z"
_SCIENTIFIC: Final = r"^-?[0-9]+(\.[0-9]+)?[eE][+-]?[0-9]{1,3}\z"
_MOMENT: Final = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)? ?(Z|UTC|[+-][0-9]{2}(:?[0-9]{2})?)?)?\z"
)
_MICROS_BEFORE_1970: Final = 62_135_596_800_000_000
_YEAR_9999_ENDS_S: Final = 253_402_300_799
_DIGITS: Final = "0123456789"


def composed(*components: Column) -> Column:
    """Components as one version; a null component counts as nothing known."""
    return F.concat_ws(
        SEPARATOR, *(F.coalesce(component, F.lit(NOTHING)) for component in components)
    )


def nothing() -> Column:
    """The component of what is not known, or not said by this source."""
    return F.lit(NOTHING)


def without_exponent(value: Column) -> Column:
    """A value's text, with a number such as 1.7E9 written out; do this before `component`.

    Nine digits after the point are kept; from 1E29 on a number with an exponent counts as text.
    """
    written_out = F.coalesce(value.try_cast("decimal(38,9)").cast("string"), value)
    return F.when(value.rlike(_SCIENTIFIC), written_out).otherwise(value)


def component(value: Column) -> Column:
    """A value of unknown kind, given as text: a number, a moment or other text."""
    return F.when(value.rlike(_DECIMAL), _decimal(value)).otherwise(
        F.coalesce(moment(value), words(value))
    )


def whole(value: Column) -> Column:
    """A whole number from 0 on, of 99 digits at most and without leading zeros, or an integer."""
    digits = value.cast("string")
    return F.concat(F.lit("P"), F.lpad(F.length(digits).cast("string"), 2, "0"), digits)


def words(value: Column) -> Column:
    """Any text, in its own order."""
    return F.concat(F.lit("W"), F.regexp_replace(value, r"([\x00-!])", "!$1"))


def numbered(value: Column) -> Column:
    """A name that ends in a counter, such as `mysql-bin.000009`: by name, then by number.

    Two components, whatever the value. A name without a number sorts before those with one.
    """
    pattern = r"(?s)^(.*?)0*([0-9]+)\z"
    has_number = value.rlike(r"[0-9]\z")
    return composed(
        words(F.when(has_number, F.regexp_extract(value, pattern, 1)).otherwise(value)),
        whole(F.when(has_number, F.regexp_extract(value, pattern, 2))),
    )


def moment(value: Column) -> Column:
    """A date, or a date and time, given as text; null if it is not one.

    Without a zone it is UTC. What lies before the year 1 counts as the beginning of that year.
    """
    since_year_1 = F.unix_micros(moment_of(value)) + _MICROS_BEFORE_1970
    micros = F.when(since_year_1 >= 0, since_year_1).when(since_year_1 < 0, 0)
    nanos = F.rpad(F.regexp_extract(value, r"\.[0-9]{6}([0-9]{1,3})", 1), 3, "0")
    return F.concat(F.lit("T"), F.lpad(micros.cast("string"), 18, "0"), nanos)


def moment_of(value: Column) -> Column:
    """The timestamp that a text says; null if it says none."""
    return F.when(value.rlike(_MOMENT), value.try_cast("timestamp"))


def since_1970(value: Column, *, per_second: int) -> Column:
    """The timestamp of a count since 1970; null if that is no number or beyond the year 9999."""
    count = value.try_cast("bigint")
    is_sane = count.between(0, _YEAR_9999_ENDS_S * per_second)
    return F.when(is_sane, F.timestamp_micros(count * (1_000_000 // per_second)))


def _size(digits: Column) -> Column:
    length = F.length(digits)
    long = F.concat(F.lit("~"), F.lpad(length.cast("string"), 9, "0"))
    return F.when(length > 99, long).otherwise(F.lpad(length.cast("string"), 2, "0"))


def _decimal(value: Column) -> Column:
    digits = F.regexp_extract(value, r"^-?0*([0-9]+)", 1)
    fraction = F.regexp_extract(value, r"\.([0-9]*?)0*\z", 1)
    sized = F.concat(_size(digits), digits)
    positive = F.concat(
        F.lit("P"), sized, F.when(fraction != "", F.concat(F.lit("."), fraction)).otherwise("")
    )
    parts = F.concat(sized, F.lit("."), fraction)
    complemented = F.translate(parts, f"{_DIGITS}~", f"{_DIGITS[::-1]}#")
    negative = F.concat(F.lit("N"), complemented, F.lit("~"))
    return F.when(value.rlike("^-.*[1-9]"), negative).otherwise(positive)
