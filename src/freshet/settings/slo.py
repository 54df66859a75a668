"""The section `[slo]`: how fresh the index has to be."""

from typing import Self

from pydantic import Field, field_validator, model_validator

from freshet.settings.section import Section
from freshet.units import DURATION, seconds_of


class SloSettings(Section):
    """How soon a change has to be found. A target that is unset is not judged."""

    landed_to_searchable: str | None = Field(
        None,
        pattern=DURATION,
        description="Longest time from the moment a change file lies in the landing zone until a "
        'search finds what is in it, such as `"1 minute"`.',
    )
    changed_to_searchable: str | None = Field(
        None,
        pattern=DURATION,
        description="Longest time from the change at the source, where the envelope tells it, "
        "until a search finds it.",
    )
    searchable_to_indexed: str | None = Field(
        None,
        pattern=DURATION,
        description="Longest time until the vector index covers what can be searched; before that "
        "it is compared row by row. Not judged while there is no vector index.",
    )
    percentile: int = Field(
        95,
        ge=1,
        le=100,
        description="The share of the change files, in percent, that must be within the target. "
        "What waits for longer than the target misses it in any case.",
    )
    window: str = Field(
        "1 hour", pattern=DURATION, description="Files that became searchable so lately count."
    )

    @field_validator(
        "landed_to_searchable", "changed_to_searchable", "searchable_to_indexed", "window"
    )
    @classmethod
    def _some_time(cls, value: str | None) -> str | None:
        if value is not None and not seconds_of(value):
            raise ValueError("it takes some time")
        return value

    @model_validator(mode="after")
    def _seen_in_time(self) -> Self:
        """What waits to be covered is looked for among what became searchable in the window."""
        target = self.searchable_to_indexed
        if target is not None and seconds_of(target) >= seconds_of(self.window):
            raise ValueError("window must be longer than searchable_to_indexed")
        return self

    @property
    def targets(self) -> dict[str, float]:
        """The targets that are set, in seconds."""
        names = ("landed_to_searchable", "changed_to_searchable", "searchable_to_indexed")
        told = {name: getattr(self, name) for name in names}
        return {name: seconds_of(value) for name, value in told.items() if value is not None}
