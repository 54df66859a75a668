"""Scripted faults: break a chosen step of a chosen batch, before or after it took effect."""

import os
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from freshet.sink import Probe, Step


class InjectedFaultError(Exception):
    """The fault that a test asked for."""


@dataclass(frozen=True)
class Moment:
    """A place in the commit protocol; written `after:commit:1`."""

    when: str
    step: Step
    batch_id: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """The moment that a text such as `before:record:0` names."""
        when, step, batch_id = text.split(":")
        if when not in {"before", "after"}:
            raise ValueError(f"a moment is before or after a step, not {when}")
        return cls(when, Step(step), int(batch_id))

    def __str__(self) -> str:
        return f"{self.when}:{self.step}:{self.batch_id}"

    def is_now(self, step: Step, when: str, batch_id: int) -> bool:
        """Whether the protocol is there."""
        return (self.when, self.step, self.batch_id) == (when, step, batch_id)


@dataclass
class FailAt:
    """Raises at a moment, once; `struck` tells whether it came to that."""

    moment: Moment
    struck: bool = False

    def __call__(self, step: Step, when: str, batch_id: int) -> None:
        """The probe."""
        if not self.struck and self.moment.is_now(step, when, batch_id):
            self.struck = True
            raise InjectedFaultError(f"{when} {step} of batch {batch_id}")


@dataclass(frozen=True)
class KillAt:
    """Kills its own process at a moment, as `kill -9` does: nothing is cleaned up."""

    moment: Moment

    def __call__(self, step: Step, when: str, batch_id: int) -> None:
        """The probe."""
        if self.moment.is_now(step, when, batch_id):
            os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class PauseAt:
    """Stops its own process at a moment, as a machine that hangs; SIGCONT lets it go on."""

    moment: Moment

    def __call__(self, step: Step, when: str, batch_id: int) -> None:
        """The probe."""
        if self.moment.is_now(step, when, batch_id):
            os.kill(os.getpid(), signal.SIGSTOP)


@dataclass
class Trace:
    """Writes down every step that the protocol takes."""

    steps: list[tuple[Step, str, int]] = field(default_factory=list)

    def __call__(self, step: Step, when: str, batch_id: int) -> None:
        """The probe."""
        self.steps.append((step, when, batch_id))

    def reached(self, step: Step) -> bool:
        """Whether a step was entered."""
        return any(seen == step for seen, _, _ in self.steps)


@dataclass(frozen=True)
class StepLog:
    """Writes every step to a file as it comes, one line each: what a killed process leaves.

    Guarantee: a line is there before anything that comes after it in the protocol, so the last
    line tells where a process was when it died.
    """

    path: Path

    def __call__(self, step: Step, when: str, batch_id: int) -> None:
        """The probe."""
        with self.path.open("a", encoding="utf-8") as log:
            log.write(f"{Moment(when, step, batch_id)}\n")

    def moments(self) -> list[Moment]:
        """All that was written so far."""
        if not self.path.exists():
            return []
        return [Moment.parse(line) for line in self.path.read_text(encoding="utf-8").split()]


def together(*probes: Probe) -> Probe:
    """One probe that tells several, in their order."""

    def probe(step: Step, when: str, batch_id: int) -> None:
        for told in probes:
            told(step, when, batch_id)

    return probe
