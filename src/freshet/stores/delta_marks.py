"""What the log of a Delta table tells of the batches that a sink has landed in it."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from freshet.errors import StoreError


@dataclass(frozen=True)
class LogMarks:
    """A table, and the newest commit of one application in it."""

    table_id: str
    version: int
    number: int
    """Of the application's newest transaction; 0 if it has none."""
    stamp: Mapping[str, str] | None = None
    """What that commit carries; None if the log does not reach back to it."""
    stamped_version: int = 0
    restored_at: int | None = None
    """A version after that commit which put an older state back."""
    metrics: Mapping[str, int] = field(default_factory=dict)
    """What that commit did, as Delta counts it."""


def log_marks(
    uri: str, application: str, is_own: Callable[[Mapping[str, str]], bool]
) -> LogMarks | None:
    """Looks back through the log to the newest commit of an application; None if no table.

    Usually that is the newest commit of all, so one file of the log is read.
    """
    try:
        table = DeltaTable(uri)
        number = int(table.transaction_version(application) or 0)
        found = LogMarks(str(table.metadata().id), int(table.version()), number)
        return _with_stamp(table, found, is_own) if number else found
    except TableNotFoundError:
        return None
    except (DeltaError, OSError) as error:
        raise StoreError("read the log of", uri, error) from error


def _with_stamp(
    table: DeltaTable, found: LogMarks, is_own: Callable[[Mapping[str, str]], bool]
) -> LogMarks:
    restored_at, seen, limit = None, 0, 1
    while True:
        commits = table.history(limit=limit)
        for commit in commits[seen:]:
            stamp, version = _stamp_of(commit), int(commit["version"])
            if stamp is not None and is_own(stamp):
                return replace(
                    found,
                    stamp=stamp,
                    stamped_version=version,
                    restored_at=restored_at,
                    metrics=_numbers(commit),
                )
            restored_at = version if commit.get("operation") == "RESTORE" else restored_at
        if len(commits) < limit:
            return replace(found, restored_at=restored_at)
        seen, limit = limit, 4 * limit


def _stamp_of(commit: Mapping[str, Any]) -> Mapping[str, str] | None:
    """What was written down with a commit, if it is a stamp."""
    try:
        told = json.loads(commit.get("userMetadata") or "")
    except ValueError:
        return None
    return told if isinstance(told, dict) else None


def _numbers(commit: Mapping[str, Any]) -> dict[str, int]:
    told = commit.get("operationMetrics") or {}
    return {name: int(value) for name, value in told.items() if str(value).isdigit()}
