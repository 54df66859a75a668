"""How often the two queries of a continuous run look for something new. Pure."""

from typing import Final

from freshet.units import seconds_of

_LOOKS_AT_BRONZE: Final = 10
"""In the time of one trigger. A look that finds nothing costs some milliseconds."""
_LOOKS_AT_REMOTE_BRONZE: Final = 4
"""Each is a request or two there, and requests cost money."""
_SHORTEST_S: Final = 0.1

Trigger = dict[str, str]


def ingest_trigger(trigger: str) -> Trigger:
    """How often the landing zone is looked at, as the settings say."""
    return {"processingTime": trigger}


def index_trigger(trigger: str, *, is_local: bool) -> Trigger:
    """How often Bronze is looked at: several times as often.

    With the same trigger for both, what ingest has written waits for nearly a whole one more.
    There are no more batches than that: Bronze has something new once a trigger.
    """
    looks = _LOOKS_AT_BRONZE if is_local else _LOOKS_AT_REMOTE_BRONZE
    whole_s = seconds_of(trigger)
    between_s = min(whole_s, max(_SHORTEST_S, whole_s / looks))
    return {"processingTime": f"{round(between_s * 1_000)} milliseconds"}
