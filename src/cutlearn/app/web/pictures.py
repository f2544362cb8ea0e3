"""What the browser is shown: images and thumbnails as files, answers as packed planes."""

import gzip
import io
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from cutlearn.features.describe import Intensities
from cutlearn.metrics import entropy

THUMB = 160


# An image whose brightest pixels are below this is shown brighter: 12 bits in a 16-bit file.
DARK = 0.25


def png_of(image: NDArray[np.float32]) -> bytes:
    """Return an image in [0, 1] as a PNG of 8 bits; quick rather than small, it goes nowhere far.

    Dark images are stretched.
    """
    file = io.BytesIO()
    Image.fromarray(_shown(image)).save(file, "PNG", compress_level=1)
    return file.getvalue()


def thumbnail(image: NDArray[np.float32]) -> bytes:
    """Return a small JPEG of an image; dark ones are stretched."""
    picture = Image.fromarray(_shown(image)).convert("RGB")
    picture.thumbnail((THUMB, THUMB))
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=80)
    return file.getvalue()


def _shown(image: NDArray[np.float32]) -> NDArray[np.uint8]:
    found = Intensities.of([image])
    return _bytes(found.scaled(image) if found.high < DARK else image)


def _bytes(image: NDArray[np.float32]) -> NDArray[np.uint8]:
    return (255 * np.clip(image, 0, 1) + np.float32(0.5)).astype(np.uint8)


def belief_planes(q: NDArray[np.float32], label: int) -> list[NDArray[np.uint8]]:
    """Give the probability of a label and the doubt, both as 0 to 255.

    The doubt is the entropy of all labels in units of its largest value, log2 L bits.
    """
    doubt = entropy(q) / np.log2(q.shape[-1])
    return [_bytes(q[..., label]), _bytes(doubt)]


def packed(meta: dict[str, Any], *planes: NDArray[np.uint8]) -> bytes:
    """Put values and planes into one answer: length of the JSON (4 bytes), JSON, planes; gzipped.

    Planes of labels are long runs of few values, which the quickest compression makes tiny.
    """
    said = json.dumps(meta).encode()
    parts = [len(said).to_bytes(4, "little"), said, *(np.ascontiguousarray(p) for p in planes)]
    return gzip.compress(b"".join(bytes(part) for part in parts), 1, mtime=0)
