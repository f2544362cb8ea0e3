"""Pages as single files: templates, and pictures as addresses that contain them."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cutlearn.arrays import AnyArray, Floats
from cutlearn.errors import clean
from cutlearn.metrics import entropy

TEMPLATES = Path(__file__).parent / "templates"
# Longer sides lose rows and columns until they fit: a page is for looking, not for measuring.
MOST_SIDE = 520
PROBABILITY, DOUBT = "viridis", "magma"


@dataclass(frozen=True)
class PagePicture:
    """A picture as an address that holds it, the words beside it, and a heading if it has one."""

    src: str
    words: str
    heading: str = ""


def stride_of(shape: tuple[int, ...]) -> int:
    """Return the step between the rows and columns of an image that a page shows."""
    return max(1, -(-max(shape[:2]) // MOST_SIDE))


def belief_panels(q: AnyArray) -> list[Floats]:
    """Return the colours of the probability of label 1 and of the entropy, (h, w, 3) each."""
    from matplotlib import colormaps

    doubt = entropy(q) / np.log2(q.shape[-1])
    return [
        colormaps[PROBABILITY](np.asarray(q[..., 1], np.float64))[..., :3],
        colormaps[DOUBT](doubt)[..., :3],
    ]


def photograph(values: npt.NDArray[np.floating]) -> str:
    """Return the address of an (h, w, 3) array of colours in [0, 1]."""
    from PIL import Image

    file = io.BytesIO()
    pixels = (255 * np.clip(values, 0, 1) + 0.5).astype(np.uint8)
    Image.fromarray(pixels).save(file, "JPEG", quality=88)
    return _address("image/jpeg", file)


def drawing(figure: Any, kind: str = "svg+xml") -> str:
    """Return the address of a figure: lines as "svg+xml", many small pictures as "png"."""
    file = io.BytesIO()
    figure.savefig(file, format=kind.split("+")[0], dpi=110, transparent=True,
                   metadata={"Date": None} if kind == "svg+xml" else None)  # fmt: skip
    return _address(f"image/{kind}", file)


def _address(kind: str, file: io.BytesIO) -> str:
    return f"data:{kind};base64,{base64.b64encode(file.getvalue()).decode()}"


def render(template: str, **values: Any) -> str:
    """Return a template of `templates/` filled in; values are text on the page, never markup."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    def ramp(name: str) -> str:
        stops = ", ".join(to_hex(colormaps[name](x)) for x in np.linspace(0, 1, 9))
        return f"linear-gradient(to right, {stops})"

    pages = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        finalize=_visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    ramps = {"probability": ramp(PROBABILITY), "doubt": ramp(DOUBT)}
    return pages.get_template(template).render(ramps=ramps, **values)


def _visible(value: Any) -> Any:
    """Return text without control characters; markup of templates as it is."""
    return clean(value, joined=False) if type(value) is str else value
