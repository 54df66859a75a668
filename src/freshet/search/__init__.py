"""Search: the records that answer a question best, as the index is now or as it was then."""

from freshet.search.as_of import AsOf, as_of_from
from freshet.search.ranking import Mode
from freshet.search.searcher import Hit, Searcher
from freshet.stores.lance_search import Knobs

__all__ = ["AsOf", "Hit", "Knobs", "Mode", "Searcher", "as_of_from"]
