"""The oracle of 1.4, and the values to which usual mistakes lead."""

from collections.abc import Iterator

import numpy as np


def distances(points: np.ndarray, rows: slice = slice(None)) -> np.ndarray:
    """From these rows' points to all, one coordinate after the other."""
    squared = np.zeros((len(points[rows]), len(points)))
    for coordinate in points.T:
        squared += (coordinate[rows, None] - coordinate) ** 2
    return np.sqrt(squared)  # (rows, n)


def statistics(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and largest distance from each point to all."""
    n = len(points)
    mean, largest = np.empty(n), np.empty(n)
    for start in range(0, n, 256):
        rows = slice(start, start + 256)
        block = distances(points, rows)
        mean[rows], largest[rows] = block.mean(axis=1), block.max(axis=1)
    return mean, largest


def mistakes(points: np.ndarray, block_rows: int) -> Iterator[tuple]:
    """Cause, diagnosis, and the mean and the largest that come of it."""
    n, distance = len(points), distances(points)
    mean, largest = distance.mean(axis=1), distance.max(axis=1)
    yield "swapped", "The two are swapped: mean first, then largest.", largest, mean

    squared = distance**2
    why = "These are squared distances: the root is missing."
    yield "squared", why, squared.mean(axis=1), largest**2

    why = (
        "The root was taken of the mean of squares. "
        "The mean of the distances was asked for: root first."
    )
    yield "root too late", why, np.sqrt(squared.mean(axis=1)), largest

    city = np.abs(points[:, None] - points).sum(axis=2)
    why = "Absolute differences were added up. The distance is Euclidean."
    yield "not Euclidean", why, city.mean(axis=1), city.max(axis=1)

    why = (
        "The mean was taken over n - 1 points. A point is one of the n, at distance 0 from itself."
    )
    yield "divided by n - 1", why, mean * n / max(n - 1, 1), largest

    block = np.arange(n) // block_rows
    own = np.where(block[:, None] == block, distance, np.nan)
    why = "Each point was compared with the points of its own block only."
    yield "block against itself", why, np.nanmean(own, axis=1), np.nanmax(own, axis=1)

    tiles = [distance[:, start : start + block_rows] for start in range(0, n, block_rows)]
    why = (
        "The mean of the tiles' means is not the mean: "
        "the last tile is smaller, and counts as much as the others."
    )
    yield "mean of means", why, np.mean([tile.mean(axis=1) for tile in tiles], axis=0), largest

    why = "Only the last tile's distances are in the result: each tile overwrote the one before."
    yield "last tile only", why, tiles[-1].mean(axis=1), tiles[-1].max(axis=1)
