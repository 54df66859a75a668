"""Gold: the latest non-deleted version of every record, and what of it goes into the index."""

from freshet.gold.attributes import Attribute, Taken, listed
from freshet.gold.missing_text import refused
from freshet.gold.project import Images, project
from freshet.gold.table import GoldTable
from freshet.gold.watched import HELD, LENT, Watch, Watched
from freshet.ordering import latest

__all__ = [
    "HELD",
    "LENT",
    "Attribute",
    "GoldTable",
    "Images",
    "Taken",
    "Watch",
    "Watched",
    "latest",
    "listed",
    "project",
    "refused",
]
