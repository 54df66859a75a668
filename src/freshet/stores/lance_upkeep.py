"""Keeping a Lance table that only grows small and fast: fewer files, fewer rows, fewer versions."""

from datetime import datetime, timedelta

import lance

from freshet.stores.copies import dated_files_below
from freshet.stores.lance_commits import translating
from freshet.stores.lance_versions import version_named


def compact(uri: str, rows_per_fragment: int) -> None:
    """Folds small fragments into ones of so many rows; those that are as large stay as they are."""
    with translating("compact", uri):
        lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=rows_per_fragment)


def forget_oldest(uri: str, rows: int, age: str) -> None:
    """Removes at least so many of the oldest rows, in whole fragments; `age` grows with time.

    Holds that column of one fragment.
    """
    with translating("forget the oldest rows of", uri):
        dataset = lance.dataset(uri)
        gone, last = 0, None
        for fragment in dataset.get_fragments():
            if gone >= rows:
                break
            ages = fragment.to_table(columns=[age]).column(age).to_pylist()
            gone += len(ages)
            last = max([*ages, *([] if last is None else [last])], default=last)
        if last is not None:
            dataset.delete(f"{age} <= {last}")


def version_times(uri: str) -> list[datetime]:
    """When the versions that are kept were committed, as their files say; none without a table."""
    files = dated_files_below(f"{uri}/_versions")
    return [file.changed_at for name, file in files.items() if version_named(name) is not None]


def forget_versions(uri: str, older_than: timedelta) -> None:
    """Removes versions that are older, and the files that only they name."""
    with translating("forget old versions of", uri):
        lance.dataset(uri).cleanup_old_versions(older_than=older_than)
