"""What a comparison of Gold and the index came to."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from freshet.verify.sampling import Sample

PROBLEMS: Final = ("missing", "orphan", "stale", "wrong_text", "duplicate")


@dataclass(frozen=True)
class Difference:
    """A key with a problem: what Gold says, and what the index has."""

    key: str
    expected: str
    actual: str

    def as_dict(self) -> dict[str, str]:
        """The form that `--json` prints."""
        return {"key": self.key, "expected": self.expected, "actual": self.actual}


@dataclass(frozen=True)
class Verdict:
    """Keys on both sides, and keys with each kind of problem; a key may have several."""

    gold: int
    index: int
    missing: int
    """In Gold, but not in the index."""
    orphan: int
    """In the index, but deleted or never in Gold."""
    stale: int
    """Another version, or other attributes, than Gold's."""
    wrong_text: int
    """Other pieces of text than Gold's, or a piece missing."""
    duplicate: int
    """A piece that stands twice."""
    examples: Mapping[str, tuple[Difference, ...]] = field(default_factory=dict)
    """A few keys with each kind of problem."""
    held: int = 0
    """Records of which an event waits for a value that the tool left out; that is no problem."""
    keys: int = 0
    """Keys that were looked at, on whichever side."""
    sample: Sample | None = None
    """None: all keys were looked at."""

    @property
    def problems(self) -> int:
        """Problems of all kinds."""
        return sum(getattr(self, problem) for problem in PROBLEMS)

    @property
    def is_empty(self) -> bool:
        """Whether the sample had no key, though there are some: it shows nothing."""
        return self.sample is not None and not self.keys and self.sample.of_keys > 0

    @property
    def ok(self) -> bool:
        """Whether the index equals Gold, as far as was looked."""
        return not self.problems and not self.is_empty

    def as_dict(self) -> dict[str, Any]:
        """The form that `--json` prints; examples only where there is a problem."""
        counts = {name: getattr(self, name) for name in ("gold", "index", *PROBLEMS, "held")}
        found = {"ok": self.ok} | counts
        if self.sample is not None:
            found["sample"] = self.sample.as_dict(self.keys, is_ok=self.ok)
        examples = {
            name: [one.as_dict() for one in some] for name, some in self.examples.items() if some
        }
        return found | ({"examples": examples} if examples else {})
