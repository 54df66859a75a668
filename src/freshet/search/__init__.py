"""Search: the records nearest to a question, as the index is at this moment."""

from freshet.search.searcher import Hit, Searcher

__all__ = ["Hit", "Searcher"]
