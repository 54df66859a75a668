"""Embedding: texts to chunks to vectors, on the executors; unchanged texts keep their vectors."""

from freshet.embedding.cache_executor import VectorCache
from freshet.embedding.pieces import content_hash
from freshet.embedding.provider import Provider, ProviderSpec
from freshet.embedding.rows_executor import IndexRows

__all__ = ["IndexRows", "Provider", "ProviderSpec", "VectorCache", "content_hash"]
