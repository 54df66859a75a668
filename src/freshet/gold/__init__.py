"""Gold: the latest non-deleted version of every record, and what of it goes into the index."""

from freshet.gold.attributes import Attribute, Taken, listed
from freshet.gold.project import project
from freshet.ordering import latest

__all__ = ["Attribute", "Taken", "latest", "listed", "project"]
