"""Images and histograms of a user's loop as tensors of a frame: `image/NAME`, `histogram/NAME`.

An image is stored as bytes, (H, W) in grey or (H, W, 3); facts["image"][NAME] says which values are 0 and 255. A
histogram is stored as its counts; facts["histogram"][NAME] has its range, divided into equal bins, and how many values
were not finite.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from txlab.errors import LabError

LARGEST_SIDE = 512  # pixels; a larger image is averaged down, since no terminal shows more
LARGEST = 1 << 28  # elements

Array = np.ndarray[Any, Any]


def as_array(values: Any) -> Array:
    """Any array, tensor or nested list as an array of numbers in memory. Raises LabError for anything else."""
    if hasattr(values, "detach"):
        values = values.detach()
        values = (values.float() if values.dtype.is_floating_point else values).cpu().numpy()
    try:
        array = np.asarray(values)
    except (ValueError, TypeError) as error:
        raise LabError(f"{str(values)[:60]!r} is not an array: {error}") from None
    if array.dtype.kind not in "biuf" or not array.size or array.size > LARGEST:
        what = f"{array.size} values of type {array.dtype}"
        raise LabError(f"an image or a histogram takes 1 to {LARGEST} real numbers, not {what}")
    return array


def pixels_of(image: Any) -> tuple[Array, list[float]]:
    """An image as bytes, (H, W) or (H, W, 3), and the values that became 0 and 255.

    Takes (H, W), (H, W, C) and (C, H, W) with C = 1, 3 or 4; of four channels the last, opacity, is left out. Bytes are
    kept, and values in [0, 1] are scaled to bytes; other numbers are scaled from their least to their greatest,
    non-negative colours from 0 to 255. Raises LabError if it has another shape.
    """
    array = as_array(image)
    if array.ndim == 3 and array.shape[-1] not in (1, 3, 4) and array.shape[0] in (1, 3, 4):
        array = np.moveaxis(array, 0, -1)
    if array.ndim == 3 and array.shape[-1] in (1, 3, 4):
        array = array[..., 0] if array.shape[-1] == 1 else array[..., :3]
    elif array.ndim != 2:
        raise LabError(f"an image has the shape (H, W), (H, W, 3) or (3, H, W), not {array.shape}")
    if array.dtype == np.uint8:
        return smaller(array.astype(np.float32)).round().astype(np.uint8), [0.0, 255.0]
    values = array.astype(np.float32)
    known = values[np.isfinite(values)]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
    if low >= 0 and high <= 1:
        low, high = 0.0, 1.0
    elif low >= 0 and high <= 255 and array.ndim == 3:
        low, high = 0.0, 255.0
    shares = (np.nan_to_num(values, nan=low, posinf=high, neginf=low) - low) / ((high - low) or 1.0)
    return np.rint(255 * smaller(shares).clip(0, 1)).astype(np.uint8), [low, high]


def smaller(image: Array) -> Array:
    """The mean of blocks, so that no side is longer than LARGEST_SIDE."""
    by = math.ceil(max(image.shape[:2]) / LARGEST_SIDE)
    if by <= 1:
        return image
    edge = [(0, -image.shape[axis] % by) for axis in (0, 1)] + [(0, 0)] * (image.ndim - 2)
    padded = np.pad(image, edge, mode="edge")
    rows, columns = padded.shape[0] // by, padded.shape[1] // by
    means: Array = padded.reshape(rows, by, columns, by, *image.shape[2:]).mean((1, 3))
    return means


def counts_of(values: Any, bins: int = 64) -> tuple[Array, list[float]]:
    """The counts (bins) of values in equal steps, and [from, to, how many are not finite]; computed where they are.

    Raises LabError for anything but numbers, and for a number of bins outside 1 to 512.
    """
    if not 1 <= bins <= 512:
        raise LabError(f"a histogram has 1 to 512 bins, not {bins}")
    if hasattr(values, "detach") and hasattr(values, "isfinite"):
        import torch

        flat = values.detach().float().reshape(-1)
        kept = flat[flat.isfinite()]
        if not len(kept):
            return np.zeros(bins, np.int64), [0.0, 1.0, float(len(flat))]
        low, high = (float(edge) for edge in torch.aminmax(kept))
        low, high = (low, high) if high > low else (low - 0.5, high + 0.5)
        counts = torch.histc(kept, bins, low, high).cpu().numpy().astype(np.int64)
        return counts, [low, high, float(len(flat) - len(kept))]
    array = as_array(values).astype(np.float64).reshape(-1)
    known = array[np.isfinite(array)]
    if not known.size:
        return np.zeros(bins, np.int64), [0.0, 1.0, float(array.size)]
    counts, edges = np.histogram(known, bins)
    return counts.astype(np.int64), [float(edges[0]), float(edges[-1]), float(array.size - known.size)]
