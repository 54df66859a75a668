"""How often the queries of a continuous run look for something new."""

import pytest

from freshet.pipeline.triggers import index_trigger, ingest_trigger
from freshet.units import seconds_of


def test_the_landing_zone_is_looked_at_as_the_settings_say() -> None:
    assert ingest_trigger("10 seconds") == {"processingTime": "10 seconds"}


@pytest.mark.parametrize(
    ("trigger", "is_local", "found"),
    [
        ("10 seconds", True, "1000 milliseconds"),
        ("10 seconds", False, "2500 milliseconds"),
        ("1 second", True, "100 milliseconds"),
        ("500 milliseconds", True, "100 milliseconds"),
        ("1 hour", True, "360000 milliseconds"),
    ],
)
def test_bronze_is_looked_at_several_times_in_a_trigger(
    trigger: str, is_local: bool, found: str
) -> None:
    assert index_trigger(trigger, is_local=is_local) == {"processingTime": found}


@pytest.mark.parametrize("trigger", ["50 milliseconds", "100 milliseconds"])
def test_bronze_is_never_looked_at_less_often_than_the_landing_zone(trigger: str) -> None:
    found = index_trigger(trigger, is_local=True)["processingTime"]
    assert seconds_of(found) <= seconds_of(trigger)
