"""What the browser is shown: images and thumbnails as files, answers as packed planes."""

import gzip
import io
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from cutlearn.metrics import entropy

THUMB = 160


def png_of(image: NDArray[np.float32]) -> bytes:
    """Give an image in [0, 1] as a PNG of 8 bits; quick rather than small, it goes nowhere far."""
    file = io.BytesIO()
    Image.fromarray(_bytes(image)).save(file, "PNG", compress_level=1)
    return file.getvalue()


def thumbnail(image: NDArray[np.float32]) -> bytes:
    """Give a small JPEG of an image."""
    picture = Image.fromarray(_bytes(image)).convert("RGB")
    picture.thumbnail((THUMB, THUMB))
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=80)
    return file.getvalue()


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
