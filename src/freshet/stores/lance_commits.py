"""What commits to Lance tables are made of, and what their history tells."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from lance import FragmentMetadata, LanceOperation
from lance.commit import CommitConflictError as LanceConflictError

from freshet.errors import CommitConflictError, StoreError


@dataclass(frozen=True)
class Commit:
    """One entry of a table's history."""

    version: int
    kind: str
    """Lance's name of the operation: Append, Update, Rewrite, Restore …"""
    properties: Mapping[str, str]

    @property
    def changes_rows(self) -> bool:
        """Whether rows may have come or gone, which no optimizer's commit does."""
        return self.kind in {"Append", "Delete", "Merge", "Overwrite", "Restore", "Update"}


def files_of(fragments: Sequence[str]) -> Iterator[str]:
    """The data files of fragments that are given as JSON."""
    for fragment in fragments:
        yield from (file["path"] for file in json.loads(fragment)["files"])


def joined(removal: Any, new: list[FragmentMetadata]) -> LanceOperation.Update:
    """An update that removes rows and adds fragments at once."""
    return LanceOperation.Update(
        removed_fragment_ids=removal.removed_fragment_ids,
        updated_fragments=removal.updated_fragments,
        new_fragments=[*removal.new_fragments, *new],
        fields_modified=removal.fields_modified,
        fields_for_preserving_frag_bitmap=removal.fields_for_preserving_frag_bitmap,
        update_mode=removal.update_mode,
    )


@contextmanager
def translating(action: str, uri: str) -> Iterator[None]:
    """Lance's errors become ours; `action` says what could not be done."""
    try:
        yield
    except LanceConflictError as error:
        raise CommitConflictError(action, uri, error) from error
    except (OSError, ValueError, RuntimeError) as error:
        raise StoreError(action, uri, error) from error
