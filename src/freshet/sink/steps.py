"""The steps that a batch goes through, and who is told of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Protocol


class Step(StrEnum):
    """In order; `commit_protocol` says what each does."""

    SKIP = "skip"
    RECOVER = "recover"
    PREPARE = "prepare"
    BURY = "bury"
    COMMIT = "commit"
    RECORD = "record"


class Probe(Protocol):
    """Told right before and right after each step; tests break things here."""

    def __call__(self, step: Step, when: str, batch_id: int) -> None:
        """`when` is `before` or `after`."""
        ...


def no_probe(step: Step, when: str, batch_id: int) -> None:
    """The probe of a production run."""


@contextmanager
def stepping(probe: Probe, step: Step, batch_id: int) -> Iterator[None]:
    """One step; if it fails, nobody is told that it ended."""
    probe(step, "before", batch_id)
    yield
    probe(step, "after", batch_id)
