"""The next batch is read while this one is computed."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def ahead(items: Iterator[T]) -> Iterator[T]:
    """The same items in the same order; one thread takes the next while the caller is busy."""

    def take() -> list[T]:
        return [item for _, item in zip(range(1), items, strict=False)]

    with ThreadPoolExecutor(1, "ahead") as pool:
        future = pool.submit(take)
        while item := future.result():
            future = pool.submit(take)
            yield item[0]
