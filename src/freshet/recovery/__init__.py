"""Checkpoints as infrastructure: backed up, inspected, restored, and made anew from the tables."""

from freshet.recovery.backup import backup
from freshet.recovery.facts import Landed
from freshet.recovery.findings import Finding, Level, is_well
from freshet.recovery.inspection import Backups, inspect, inspect_backup
from freshet.recovery.manifest import Backup, backups_in
from freshet.recovery.rebuild import Position, Rebuilt, reconcile
from freshet.recovery.restore import Restored, restore

__all__ = [
    "Backup",
    "Backups",
    "Finding",
    "Landed",
    "Level",
    "Position",
    "Rebuilt",
    "Restored",
    "backup",
    "backups_in",
    "inspect",
    "inspect_backup",
    "is_well",
    "reconcile",
    "restore",
]
