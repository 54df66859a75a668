"""A look at the first batch of an index, when there were no files yet to look at at the start."""

from typing import Final

from pyspark.sql import DataFrame

from freshet.changes.sample import wrong_envelope
from freshet.errors import SettingsError
from freshet.layout import Home
from freshet.stores.lance_tables import LanceTable

_RECORDS: Final = 200


def has_rows(index: str) -> bool:
    """Whether there is an index, and something in it; an empty batch makes an empty one."""
    return LanceTable.exists(index) and LanceTable.open(index).count() > 0


def check_first_batch(events: DataFrame, envelope: str, home: Home) -> None:
    """Raises `SettingsError` if the records are of another envelope than the settings say."""
    some = events.where("raw IS NOT NULL").select("raw").limit(_RECORDS).collect()
    problem = wrong_envelope([row["raw"] for row in some], envelope)
    if problem is not None:
        raise SettingsError(
            f"{problem}. Nothing is in the index yet. Bronze holds the records as they were "
            f"misread: remove the folder {home.root}, and run again"
        )
