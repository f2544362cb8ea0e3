"""Pictures that live inside a page: arrays and figures in, addresses that hold them out."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cutlearn.metrics import entropy

# Longer sides lose rows and columns until they fit: a page is for looking, not for measuring.
MOST_SIDE = 520
PROBABILITY, DOUBT = "viridis", "magma"


@dataclass(frozen=True)
class Picture:
    """A picture as an address that holds it, the words beside it, and a heading if it has one."""

    src: str
    words: str
    heading: str = ""


def stride_of(shape: tuple[int, ...]) -> int:
    """Give the step between the rows and columns that are shown of an image of this shape."""
    return max(1, -(-max(shape[:2]) // MOST_SIDE))


def belief_panels(q: npt.NDArray[Any]) -> list[npt.NDArray[np.float64]]:
    """Give the colours of the probability of label 1, and those of the doubt, (h, w, 3) each."""
    from matplotlib import colormaps

    doubt = entropy(q) / np.log2(q.shape[-1])
    return [
        colormaps[PROBABILITY](np.asarray(q[..., 1], np.float64))[..., :3],
        colormaps[DOUBT](doubt)[..., :3],
    ]


def ramps() -> dict[str, str]:
    """Give the colour maps of probability and doubt as CSS."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    def ramp(name: str) -> str:
        stops = ", ".join(to_hex(colormaps[name](x)) for x in np.linspace(0, 1, 9))
        return f"linear-gradient(to right, {stops})"

    return {"probability": ramp(PROBABILITY), "doubt": ramp(DOUBT)}


def photograph(values: npt.NDArray[np.floating]) -> str:
    """Give the address of an (h, w, 3) array of colours in [0, 1]."""
    from PIL import Image

    file = io.BytesIO()
    pixels = (255 * np.clip(values, 0, 1) + 0.5).astype(np.uint8)
    Image.fromarray(pixels).save(file, "JPEG", quality=88)
    return _address("image/jpeg", file)


def drawing(figure: Any, kind: str = "svg+xml") -> str:
    """Give the address of a figure: lines as "svg+xml", many small pictures as "png"."""
    file = io.BytesIO()
    figure.savefig(file, format=kind.split("+")[0], dpi=110, transparent=True,
                   metadata={"Date": None} if kind == "svg+xml" else None)  # fmt: skip
    return _address(f"image/{kind}", file)


def _address(kind: str, file: io.BytesIO) -> str:
    return f"data:{kind};base64,{base64.b64encode(file.getvalue()).decode()}"
