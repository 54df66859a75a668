"""The index as it was before a rebuild: kept under a name that says until when."""

import re
from datetime import UTC, datetime
from typing import Final

from freshet.events import emit
from freshet.stores import lance_switch
from freshet.stores.lance_tables import LanceTable

_PREFIX: Final = "before-rebuild-"
_TIME: Final = "%Y%m%dT%H%M%SZ"
_NAME: Final = re.compile(rf"{_PREFIX}(?P<rebuild>\w+)-until-(?P<until>\d{{8}}T\d{{6}}Z)")


def keep(table: LanceTable, rebuild_id: str, until: datetime | None) -> str | None:
    """Names the table's version, so that no cleanup takes it; None: it is not to be kept."""
    name = None if until is None else f"{_PREFIX}{rebuild_id}-until-{until.astimezone(UTC):{_TIME}}"
    for known in lance_switch.tags(table.uri):
        # An earlier try to switch may have named another one.
        if known.startswith(f"{_PREFIX}{rebuild_id}-") and known != name:
            lance_switch.untag(table.uri, known)
    if name is not None:
        lance_switch.tag(table.uri, name, table.version)
    return name


def forget_expired(uri: str, now: datetime) -> list[str]:
    """Takes the names of versions whose time is over, so that a cleanup can have them."""
    if not LanceTable.exists(uri):
        return []
    expired = [name for name in lance_switch.tags(uri) if _is_expired(name, now)]
    for name in expired:
        lance_switch.untag(uri, name)
        emit("pipeline", "old_version_forgotten", name=name)
    return expired


def _is_expired(name: str, now: datetime) -> bool:
    found = _NAME.fullmatch(name)
    if found is None:
        return False
    return datetime.strptime(found["until"], _TIME).replace(tzinfo=UTC) <= now
