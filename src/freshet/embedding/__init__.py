"""Embedding: texts to chunks to vectors, on the executors; unchanged texts keep their vectors."""

from freshet.embedding.provider import Provider, ProviderSpec
from freshet.embedding.rows_executor import IndexRows, content_hash

__all__ = ["IndexRows", "Provider", "ProviderSpec", "content_hash"]
