"""Carries actions out."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from freshet.optimizer.actions import Action, Kind
from freshet.stores import lance_actions

Hook = Callable[[str, Action], None]
"""Told `before`, `written` (a compaction's files are there and no version names them) and `after`
each action; tests break things here."""


def no_hook(when: str, action: Action) -> None:
    """The hook of a production run."""


@dataclass(frozen=True)
class Acting:
    """Knows how each kind of action is done to one table."""

    uri: str
    metric: str
    fragment_rows: int
    tidy: Callable[[str], None]
    """Folds a table beside the index, by its name."""
    hook: Hook = no_hook

    def do(self, action: Action) -> None:
        """Does one action; `CommitConflictError` if a writer was faster."""
        self.hook("before", action)
        _DO[action.kind](self, action)
        self.hook("after", action)

    def build(self, action: Action) -> None:
        """Trains or makes an index."""
        told = action.details
        if "partitions" in told:
            lance_actions.build_vector_index(
                self.uri,
                told["column"],
                action.target,
                kind=told["kind"],
                metric=self.metric,
                partitions=told["partitions"],
                **told["graph"],
            )
        else:
            lance_actions.build_scalar_index(self.uri, told["column"], action.target, told["kind"])

    def extend(self, action: Action) -> None:
        """Indexes new rows."""
        lance_actions.extend_index(self.uri, action.target)

    def merge(self, action: Action) -> None:
        """Merges parts of an index."""
        lance_actions.merge_parts(self.uri, action.target, action.details["count"])

    def compact(self, action: Action) -> None:
        """Folds fragments."""
        target = max(action.rows, self.fragment_rows)
        lance_actions.compact(
            self.uri, action.details["fragments"], target, lambda: self.hook("written", action)
        )

    def clean(self, action: Action) -> None:
        """Removes versions."""
        lance_actions.clean(self.uri, action.details["versions"])

    def sweep(self, action: Action) -> None:
        """Removes files that no version names."""
        lance_actions.sweep(self.uri, action.details["files"])

    def tidy_up(self, action: Action) -> None:
        """Folds a table beside the index."""
        self.tidy(action.target)


_DO: Final[dict[Kind, Callable[[Acting, Action], None]]] = {
    Kind.BUILD: Acting.build,
    Kind.RETRAIN: Acting.build,
    Kind.EXTEND: Acting.extend,
    Kind.MERGE: Acting.merge,
    Kind.COMPACT: Acting.compact,
    Kind.CLEAN: Acting.clean,
    Kind.SWEEP: Acting.sweep,
    Kind.TIDY: Acting.tidy_up,
}
