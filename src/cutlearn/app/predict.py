"""`cutlearn predict`: a model and a folder of images in; masks, probabilities and areas out."""

import csv
import io
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cutlearn.app.answers import answers
from cutlearn.app.exits import say
from cutlearn.app.inputs import load_model, open_folder
from cutlearn.app.options import (
    FILE,
    FOLDER,
    jobs_option,
    logits_option,
    min_side_option,
    output_options,
)
from cutlearn.app.registry import register
from cutlearn.app.tables import percent, text_cell
from cutlearn.errors import InputError
from cutlearn.run.progress import Progress, clock

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

AREAS = ("name", "label", "mask_pixels", "expected_pixels", "low", "high")
AREA_LEVEL = 0.95


@register
@click.command()
@click.argument("model", type=FILE)
@click.argument("images", type=FOLDER)
@click.option(
    "-o", "--output", type=FOLDER, required=True, help="Folder for the masks; made if missing."
)
@click.option(
    "--probability",
    is_flag=True,
    help="Also write DIR/probability/name.png: 16-bit grey, where 65535 is a probability of 1. "
    "With several labels: name.0.png, name.1.png, ...",
)
@click.option(
    "--areas",
    type=FILE,
    metavar="AREAS.csv",
    help="Also write a table of areas in pixels: in the masks, expected, with 95 % intervals.",
)
@click.option(
    "--object-value",
    type=click.IntRange(1, 255),
    default=255,
    show_default=True,
    help="Value of the object in the masks that are written. Masks of several labels hold the "
    "label ids.",
)
@logits_option
@jobs_option
@min_side_option
@output_options
def predict(
    model: str,
    images: str,
    output: str,
    probability: bool,
    areas: str | None,
    object_value: int,
    logits: str | None,
    jobs: int | None,
    min_side: int | None,
    as_json: bool,
) -> int:
    """Write a mask for every image of IMAGES: DIR/name.png."""
    from cutlearn.images.folder import write_mask

    begin = time.monotonic()
    estimator = load_model(model, jobs, min_side)
    out = Path(output)
    _check_output(out, images)
    _check_areas(areas, estimator, model)
    folder = open_folder(images, logits=logits)
    out.mkdir(parents=True, exist_ok=True)
    several = len(estimator.classes_) > 2
    shares, rows = [], []
    level = None if areas is None else AREA_LEVEL
    with Progress() as shown:
        found = answers(estimator, folder, probability or areas is not None, level)
        for i, one in enumerate(shown.count(found, len(folder), "predicting")):
            name = folder.names[i]
            write_mask(out / f"{name}.png", one.mask, None if several else object_value)
            if one.belief is not None and probability:
                _write_belief(out / "probability", name, one.belief)
            if one.areas is not None:
                rows += _area_rows(name, one.mask, one.areas)
            shares.append(float((one.mask > 0).mean()))
    if areas is not None:
        _write_areas(areas, rows)
    said = {"output": str(out), "object_value": None if several else object_value,
            "seconds": round(time.monotonic() - begin, 2)}  # fmt: skip
    if as_json:
        parts = [{"name": n, "share": round(s, 6)} for n, s in zip(folder.names, shares)]
        say(json.dumps({**said, "images": parts}))
    else:
        last = estimator.classes_[-1] if several else None
        maps = ", probabilities in probability/" if probability else ""
        maps += "" if areas is None else f", areas in {areas}"
        say(_summary(said, shares, last, maps))
    return 0


def _check_output(out: Path, images: str) -> None:
    if out.resolve() == Path(images).resolve():
        raise InputError(
            f"{out}: the folder of the images found; another one was wanted, so that no image is "
            "overwritten by its mask. Name another folder."
        )


def _check_areas(areas: str | None, estimator: Any, model: str) -> None:
    if areas is not None and not (estimator.believes and estimator.calibration_.n_images):
        raise InputError(
            f"{model}: no held-out areas found in this model; intervals come from them. Fit it "
            "with a calibration, or leave out --areas."
        )


def _summary(said: dict[str, Any], shares: Sequence[float], last: int | None, maps: str) -> str:
    """Say in one line what was written; `last` is the last label of several."""

    values = f"0 and {said['object_value']}" if last is None else f"0 to {last}"
    objects = "the object covers" if last is None else "labels above 0 cover"
    return (
        f"{said['output']}: {len(shares)} masks ({values}){maps}, {objects} "
        f"{percent(sum(shares) / len(shares))} on average, {clock(said['seconds'])}"
    )


def _area_rows(
    name: str, mask: "NDArray[np.uint8]", areas: "NDArray[np.float64]"
) -> list[tuple[Any, ...]]:
    """A row of the table of areas for each label above 0."""
    return [
        (name, label, int((mask == label).sum()), *(f"{v:.1f}" for v in areas[label]))
        for label in range(1, len(areas))
    ]


def _write_areas(path: str, rows: Sequence[tuple[Any, ...]]) -> None:
    from cutlearn.store import atomic_write

    table = io.StringIO()
    named = ((text_cell(name), *rest) for name, *rest in rows)
    csv.writer(table, lineterminator="\n").writerows([AREAS, *named])
    atomic_write(path, table.getvalue().encode())


def _write_belief(folder: Path, name: str, belief: "NDArray[np.float32]") -> None:
    """Write the probability of the object, or of several labels that of each."""
    from cutlearn.images.folder import write_probability

    parts = {"": 1} if belief.shape[-1] == 2 else {f".{k}": k for k in range(belief.shape[-1])}
    for part, label in parts.items():
        path = folder / f"{name}{part}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_probability(path, belief[..., label])
