"""The section `[index]` and what keeps the index fast, the section `[optimizer]`."""

from typing import Final, Literal

from pydantic import Field, field_validator

from freshet.settings.section import Section
from freshet.units import DURATION, SIZE

FOREVER: Final = "forever"
NO_INDEX: Final = "none"

VectorIndexKind = Literal[
    "IVF_HNSW_SQ",
    "IVF_HNSW_PQ",
    "IVF_HNSW_FLAT",
    "IVF_PQ",
    "IVF_SQ",
    "IVF_RQ",
    "IVF_FLAT",
    "none",
]


class IndexSettings(Section):
    """How vectors are compared, what is indexed, and how long deletes are remembered."""

    metric: Literal["cosine", "l2", "dot"] = Field("cosine", description="Distance of vectors.")
    kind: VectorIndexKind = Field(
        "IVF_HNSW_SQ",
        description='Kind of the vector index; `"none"`: every search compares all vectors.',
    )
    min_rows: int = Field(
        1_000,
        ge=256,
        description="Rows from which on there is a vector index; fewer are compared as quickly.",
    )
    text_index: bool = Field(True, description="Whether the text is indexed for words, too.")
    filters: dict[str, Literal["BTREE", "BITMAP"]] = Field(
        default_factory=dict,
        description="Attributes that are indexed for filters, such as "
        '`{ price = "BTREE", category = "BITMAP" }`.',
    )
    tombstone_retention: str = Field(
        "90 days",
        pattern=f"{DURATION}|^{FOREVER}$",
        description="How long a deleted key is remembered, so that an older event that comes late "
        'does not bring it back; or `"forever"`.',
    )


class OptimizerSettings(Section):
    """When the index is tidied up, and how much of the machine that may take."""

    in_run: bool = Field(
        True,
        description="Whether `freshet run` tidies up, too. Set it to false where "
        "`freshet optimize --watch` runs as a process of its own.",
    )
    cadence: str = Field(
        "30 seconds", pattern=DURATION, description="How often it looks whether something is due."
    )
    coordination: Literal["optimistic", "exclusive"] = Field(
        "optimistic",
        description="`optimistic`: writer and optimizer work at the same time, and the writer wins "
        "where both change the same rows. `exclusive`: one waits for the other.",
    )
    unindexed_rows: int = Field(
        1_000, ge=1, description="So many new rows get a part of each index."
    )
    index_parts: int = Field(
        8, ge=2, description="Parts of an index from which on they are merged in any case."
    )
    small_fragments: int = Field(
        16, ge=4, description="So many small fragments are folded into larger ones."
    )
    fragment_rows: int = Field(
        131_072, ge=1_024, description="A fragment of so many rows is not small."
    )
    deleted_share: float = Field(
        0.2,
        gt=0,
        lt=1,
        description="A fragment is rewritten when more than this share of its rows is deleted.",
    )
    least_recall: float = Field(
        0.9,
        ge=0,
        le=1,
        description="The vector index is trained anew when a probe finds a smaller share of the "
        "true neighbours.",
    )
    probe_interval: str = Field(
        "10 minutes",
        pattern=DURATION,
        description="How often search is timed and its recall measured, on rows of the index.",
    )
    retention: str = Field(
        "1 hour",
        pattern=DURATION,
        description="How far back `search --as-of` reaches, and how long a reader may hold on to a "
        "version; older versions go, and with them what only they need.",
    )
    orphan_age: str = Field(
        "1 day",
        pattern=DURATION,
        description="Age at which files go that a killed process left behind. Must be longer than "
        "any batch takes.",
    )
    memory: str = Field(
        "1 GB", pattern=SIZE, description="Memory that one action may take, as estimated before."
    )
    action_time: str = Field(
        "60 seconds",
        pattern=DURATION,
        description="Time that one action may take, as estimated from those before; the first "
        "training of an index is not bounded.",
    )
    lock_expiry: str = Field(
        "60 seconds",
        pattern=DURATION,
        description="A lock that its owner has not renewed for so long is void: its owner died.",
    )

    @field_validator("lock_expiry")
    @classmethod
    def _long_enough(cls, value: str) -> str:
        if value.startswith("0 "):
            raise ValueError("a lock must hold for some time")
        return value
