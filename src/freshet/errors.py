"""Every error that Freshet raises on purpose. Each carries its fields and builds its own sentence.

    FreshetError
    ├── SettingsError              the settings, or what they say of the data, are wrong
    ├── SetupError                 the machine lacks something: Java, jars, model weights
    ├── TableMissingError          a table that should be there has not been made yet
    ├── ProfileError               there is nothing to profile
    ├── CalibrationError           there is nothing to calibrate by, or no room for it
    ├── PlotError                  there is nothing to draw
    ├── SearchError                the question cannot be asked of this index
    │   └── AsOfError              the index as it was then is not kept
    ├── ModelMismatchError         the index was built with another model or other chunks
    ├── SchemaMismatchError        the table's columns do not fit what is to be written
    ├── SchemaError                what is asked of the records' schema cannot be done
    │   └── SchemaChangedError     the records have a new column or type, and that is to stop
    ├── RebuildActiveError         another rebuild of the index is under way
    ├── IndexRebuiltError          the index was rebuilt while a run was writing it
    ├── EmbeddingError             the model, or the server of it, does not give vectors
    ├── TextRefusedError           a model cannot take a text, and never will
    ├── StoreError                 a storage call failed
    │   ├── VersionMissingError    a version of a table was cleaned away
    │   └── CommitConflictError    another commit came first: reopen and try again (retryable)
    ├── FileOverwrittenError       a file changed after it was read, and that is to be refused
    ├── FileChangedError           a file changed while it was being read (retryable)
    ├── StreamFailedError          a streaming query stopped with an error
    └── SinkError                  the commit protocol cannot go on
        ├── ContinuityError        checkpoint, ledger and table do not belong together
        ├── SinkNameTakenError     the sink's name belongs to another table
        ├── FencedError            another driver writes the table now: this one must end
        ├── HistoryMissingError    the versions that would tell whether a batch landed are gone
        └── CommitUnknownError     a commit may or may not have landed: look before any retry

Only `CommitConflictError` may be retried without a look at the table first.
"""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Final

_CHAINED: Final = re.compile(r"\s*\n\s*(?:\x1b\[\d+m)?↳(?:\x1b\[\d+m)?\s*")
"""Between one cause and the next, as delta-rs tells them."""
_WITHOUT_KEYS: Final = ("Failed to get AWS credentials", "/latest/api/token")
"""What Lance and delta-rs say when they end up asking the machine itself, in vain."""
_NO_KEYS: Final = (
    "no keys for S3 were found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or use a role of "
    "the machine"
)
_FAILED_CALL: Final = re.compile(r"^An error occurred while calling \S+\n: ")


class FreshetError(Exception):
    """Base of all errors raised on purpose: `str(error)` is one sentence for a person."""


class SettingsError(FreshetError):
    """The settings cannot be used; nothing was created."""

    def __init__(self, problem: str, *, where: str | None = None) -> None:
        self.problem = problem
        self.where = where
        super().__init__(f"{where}: {problem}" if where else problem)


class SetupError(FreshetError):
    """The machine lacks something that Freshet needs; the sentence says how to get it."""


class TableMissingError(FreshetError):
    """A table has not been made yet."""

    def __init__(self, what: str, uri: str) -> None:
        self.what = what
        self.uri = uri
        super().__init__(f"there is no {what} at {uri} yet: start with `freshet run --once`")


class ProfileError(FreshetError):
    """There is nothing to profile; the sentence says what is missing."""


class PlotError(FreshetError):
    """There is nothing to draw; the sentence says what is missing."""


class CalibrationError(FreshetError):
    """The index cannot be calibrated; the sentence says what is missing."""


class SearchError(FreshetError):
    """The question cannot be asked of this index."""


class AsOfError(SearchError):
    """The index as it was then cannot be searched; `kept` says what can."""

    def __init__(self, problem: str, *, kept: str) -> None:
        self.problem = problem
        self.kept = kept
        super().__init__(
            f"{problem}. Kept are {kept}; the setting optimizer.retention says for how long"
        )


class ModelMismatchError(FreshetError):
    """The index was built with another model or other chunks than the settings name."""

    def __init__(self, *, table: str, what: str, in_table: str, in_settings: str) -> None:
        self.table = table
        self.what = what
        self.in_table = in_table
        self.in_settings = in_settings
        super().__init__(
            f"the index {table} was built with {what} {in_table}, but the settings say "
            f"{in_settings}: set it back, or build the index anew: run `freshet rebuild`"
        )


class SchemaMismatchError(FreshetError):
    """The table's columns do not fit what is to be written; nothing was written."""

    def __init__(self, *, table: str, problems: Sequence[str]) -> None:
        self.table = table
        self.problems = tuple(problems)
        super().__init__(
            f"the rows do not fit the table {table}: {'; '.join(problems)}. "
            "Keep the columns as they are, or write to a new table; of a pipeline's index, run "
            "`freshet rebuild`"
        )


class RebuildActiveError(FreshetError):
    """Another rebuild of the same index is under way."""

    def __init__(self, *, holder: str, renewed_at: datetime) -> None:
        self.holder = holder
        super().__init__(
            f"a rebuild is under way: {holder}, last heard of at {renewed_at:%H:%M:%S} UTC. Wait "
            "for its end (`freshet status` tells how far it is), or end it and run "
            "`freshet rebuild` again: it goes on there"
        )


class IndexRebuiltError(FreshetError):
    """The index was rebuilt with other settings than this run has; it wrote nothing since."""

    def __init__(self, table: str) -> None:
        self.table = table
        super().__init__(
            f"the index {table} was rebuilt with other settings while this run was active: start "
            "the run again with the new settings. Nothing was lost"
        )


class SchemaError(FreshetError):
    """What is asked of the records' schema cannot be done; nothing was changed."""


class SchemaChangedError(SchemaError):
    """Records have a new column, or a new type of one; nothing of their batch was written."""

    def __init__(self, changes: Sequence[str], *, batch_id: int, file: str, row: int) -> None:
        self.changes = tuple(changes)
        self.batch_id = batch_id
        self.file = file
        self.row = row
        super().__init__(
            f"the schema of the records changed: {'; '.join(changes)} (first in {file}, row {row}, "
            f'batch {batch_id}), and landing.schema_mode is "fail". Nothing of the batch was '
            "written. `freshet schema accept` takes the change, and the next run goes on"
        )


class EmbeddingError(FreshetError):
    """A model does not give vectors; the batch is not written, and can be again.

    `url` is where the model is served, or a name of it.
    """

    def __init__(self, url: str, problem: str) -> None:
        self.url = url
        self.problem = problem
        super().__init__(f"{url} {problem}")

    def __reduce__(self) -> tuple[type["EmbeddingError"], tuple[str, str]]:
        return EmbeddingError, (self.url, self.problem)


class TextRefusedError(FreshetError):
    """A model cannot take a text, and never will; others of the same call may be fine."""

    def __init__(self, url: str, problem: str) -> None:
        self.url = url
        self.problem = problem
        super().__init__(f"{url} {problem}")

    def __reduce__(self) -> tuple[type["TextRefusedError"], tuple[str, str]]:
        return TextRefusedError, (self.url, self.problem)


class StoreError(FreshetError):
    """A storage call failed."""

    def __init__(self, action: str, uri: str, cause: BaseException | str) -> None:
        self.action = action
        self.uri = uri
        self.reason = _first_line(cause)
        super().__init__(f"could not {action} {uri}: {self.reason}")


class VersionMissingError(StoreError):
    """A version of a table was cleaned away."""


class CommitConflictError(StoreError):
    """Another commit came first; the table is unchanged by this one. Reopen and try again."""


class FileOverwrittenError(FreshetError):
    """A file changed after it was read, and the settings refuse that."""

    def __init__(self, path: str, seq: int) -> None:
        self.path = path
        self.seq = seq
        super().__init__(
            f"the file {path} (number {seq}) changed after it was read, and landing.overwrites is "
            '"refuse": put the file back, or set it to "reread" or "ignore"'
        )


class FileChangedError(FreshetError):
    """A file changed while it was being read; nothing of this reading counts. Try again."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(f"the file {path} changed while it was being read: it is read again")


class StreamFailedError(FreshetError):
    """A streaming query stopped with an error; a restart continues where it stopped."""

    def __init__(self, query: str, cause: str) -> None:
        self.query = query
        self.cause = cause
        super().__init__(f'the query "{query}" stopped: {cause}')


class SinkError(FreshetError):
    """The commit protocol cannot go on."""


class ContinuityError(SinkError):
    """Checkpoint, ledger and table do not belong together; nothing was written."""

    def __init__(self, *, case: str, table: str, found: str, remedy: str) -> None:
        self.case = case
        self.table = table
        super().__init__(f"{found} ({table}). Nothing was written. {remedy}")


class SinkNameTakenError(SinkError):
    """One name for two tables would mix up what is on record of them; nothing was written."""

    def __init__(self, *, sink: str, table: str, other: str) -> None:
        super().__init__(
            f"the sink {sink} writes the table {other}, so it cannot write {table}: give this one "
            'a name of its own, sink="…", or use another ledger'
        )


class FencedError(SinkError):
    """Another driver has taken over; what this one had prepared did not take effect."""

    def __init__(self, *, table: str, sink: str, holder: str, since: datetime) -> None:
        self.table = table
        self.holder = holder
        super().__init__(
            f"{holder} has been writing {table} for {sink} since {since:%Y-%m-%d %H:%M:%S} UTC, "
            "so this driver must not: end one of the two"
        )


class HistoryMissingError(SinkError):
    """Versions that would tell whether a batch landed are gone: going on could write it twice."""

    def __init__(self, *, table: str, batch_id: int, missing: int) -> None:
        self.table = table
        self.batch_id = batch_id
        self.missing = missing
        super().__init__(
            f"cannot tell whether batch {batch_id} landed in {table}: its version {missing} was "
            "cleaned away by something other than Freshet. Nothing was written. Put the version "
            "back from a backup, or start over with an empty table, ledger and checkpoint"
        )


class CommitUnknownError(SinkError):
    """A commit may or may not have landed, and the table could not be read to find out."""

    def __init__(self, *, table: str, batch_id: int, cause: BaseException) -> None:
        self.table = table
        self.batch_id = batch_id
        super().__init__(
            f"batch {batch_id} may or may not have landed in {table}: {cause}. "
            "Restart: the next start looks for its stamp before it writes anything"
        )


def _first_line(cause: BaseException | str) -> str:
    """What a library says first; the places in its own source that follow help nobody here.

    Of an error in Java that is its own first line, and not that a call from Python failed; of a
    chain of causes, all of them.
    """
    said = _CHAINED.sub(": ", _FAILED_CALL.sub("", str(cause).strip()))
    if any(sign in said for sign in _WITHOUT_KEYS):
        return _NO_KEYS
    return said.split("\n", 1)[0].split(", /home/")[0]
