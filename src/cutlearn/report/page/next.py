"""What to annotate next, as a page: images in the order of `rank`, windows to begin with.

In: the order, and the images at its head with their probabilities. Everything is inside the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cutlearn.model.probability.ranking import Ranked, Window
from cutlearn.report.displays.overlay import rgb
from cutlearn.report.page.panels import Picture, belief_panels, photograph, stride_of
from cutlearn.report.page.render import render

# Windows of an image that are framed.
FRAMED = 3
FRAME = (230 / 255, 110 / 255, 0.0)


@dataclass(frozen=True, eq=False)
class Candidate:
    """An image that has no mask yet.

    Parameters
    ----------
    image : (h, w) or (h, w, 3) array
    belief : (h, w, L) probabilities, or None
    """

    image: npt.NDArray[Any]
    belief: npt.NDArray[Any] | None


def next_page(
    title: str,
    names: Sequence[str],
    order: Sequence[Ranked],
    candidates: Sequence[Candidate],
) -> str:
    """Write the page of images without masks.

    Parameters
    ----------
    title : str
    names : one for each image
    order : sequence of Ranked
        All images, as `rank` gave them.
    candidates : sequence of Candidate
        The first images of the order, which get a row of pictures.

    Returns
    -------
    str
        HTML, whole in itself.
    """
    rows = [
        (f"{k}. {names[r.image]}", _told(r), candidate_panels(c, r.windows))
        for k, (r, c) in enumerate(zip(order, candidates), 1)
    ]
    top = max((r.score for r in order), default=0.0) or 1.0
    table = [(k, names[r.image], r.score, 100 * r.score / top) for k, r in enumerate(order, 1)]
    headlines = [
        ("images", str(len(names)), "without masks"),
        ("the first", str(len(rows)), "are shown below"),
        ("tell", f"{sum(r.score for r in order[: len(rows)]):.1%}", "of all images"),
    ]
    return render("next.html", title=title, headlines=headlines, rows=rows, table=table)


def candidate_panels(candidate: Candidate, windows: Sequence[Window]) -> list[Picture]:
    """Give the pictures of one image, the windows to annotate first framed in it."""
    step = stride_of(candidate.image.shape)
    base = rgb(candidate.image[::step, ::step])
    for window in windows[:FRAMED]:
        framed(base, window, step)
    found = [Picture(photograph(base), "image, with the windows to begin with")]
    if candidate.belief is not None:
        sure, doubt = belief_panels(candidate.belief[::step, ::step])
        found += [Picture(photograph(sure), "probability"), Picture(photograph(doubt), "doubt")]
    return found


def framed(picture: npt.NDArray[np.float64], window: Window, step: int) -> None:
    """Draw the border of a window into a picture that shows every step-th row and column."""
    rows = slice(window.top // step, max(window.bottom // step, window.top // step + 1))
    columns = slice(window.left // step, max(window.right // step, window.left // step + 1))
    part = picture[rows, columns]
    wide = max(1, max(picture.shape[:2]) // 200)
    for side in (part[:wide], part[-wide:], part[:, :wide], part[:, -wide:]):
        side[:] = FRAME


def _told(ranked: Ranked) -> str:
    return f"its labels would tell of another {ranked.score:.1%} of all images"
