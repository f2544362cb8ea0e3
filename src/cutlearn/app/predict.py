"""`cutlearn predict`: a model and a folder of images in; masks, probabilities and areas out."""

import json
import time
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import click

from cutlearn.app.answers import answers
from cutlearn.app.exits import say
from cutlearn.app.inputs import (
    label_names,
    load_model,
    open_folder,
    plan_workers,
    remark,
    tell_differences,
    written_values,
)
from cutlearn.app.options import (
    FILE,
    FOLDER,
    IMAGES,
    NameIn,
    image_options,
    logits_option,
    min_side_option,
    output_options,
    place_options,
    refuse_idle,
    shown_progress,
    spacing_option,
    strict_reading,
)
from cutlearn.app.products import Areas, MaskFiles, Objects, Overlays, ProbabilityFiles, Product
from cutlearn.app.registry import register
from cutlearn.app.tables import percent
from cutlearn.errors import InputError, plural
from cutlearn.model.decisions import DECISIONS
from cutlearn.run.progress import clock

AREA_LEVEL = 0.95


@register
@click.command()
@click.argument("model", type=FILE)
@click.argument("images", type=IMAGES)
@click.option(
    "-o",
    "--output",
    type=FOLDER,
    help="Folder for the masks; made if missing. "
    "[default: a folder beside IMAGES, with _masks behind its name]",
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
    help="Also write a table of areas in pixels: in the masks, expected, and 95 % prediction "
    "intervals, which need held-out images of at least four groups.",
)
@click.option(
    "--objects",
    is_flag=True,
    help="Also number the single objects: DIR/objects/name.png (16 bit) and the table "
    "DIR/objects.csv with area, centre and mean probability of each.",
)
@click.option("--no-split", is_flag=True, help="Leave objects that touch each other together.")
@click.option(
    "--min-area",
    type=click.IntRange(min=0),
    metavar="PIXELS",
    help="Leave out objects that are smaller; 0 keeps all. [default: an eighth of the median area "
    "in the image, so that fragments are not counted]",
)
@click.option(
    "--outlines",
    type=click.Choice(["geojson", "coco", "imagej"]),
    help="Also write the outlines of the objects, with holes: DIR/outlines/ (imagej: ROI files, "
    "with the package roifile).",
)
@click.option(
    "--overlay",
    is_flag=True,
    help="Also draw the borders over the images: DIR/overlay/. With "
    "--objects, those of each object.",
)
@click.option(
    "--object-value",
    type=click.IntRange(1, 255),
    default=255,
    show_default=True,
    help="Value of the object in the masks that are written. Masks of several labels hold the "
    "values of the training masks, with a colour for each.",
)
@click.option(
    "--decision",
    type=NameIn(lambda: DECISIONS),
    default="map",
    show_default=True,
    help="What the masks are chosen for: "
    + "; ".join(f"{name}: {one.summary}" for name, one in DECISIONS.items())
    + ".",
)
@image_options
@spacing_option
@strict_reading
@logits_option
@place_options
@min_side_option
@output_options
def predict(
    model: str,
    images: str,
    output: str | None,
    probability: bool,
    areas: str | None,
    objects: bool,
    no_split: bool,
    min_area: int | None,
    outlines: str | None,
    overlay: bool,
    object_value: int,
    decision: str,
    logits: str | None,
    jobs: int | None,
    min_side: int | str | None,
    as_json: bool,
    **reading: Any,
) -> int:
    """Write a mask for every image of IMAGES, a folder or a file: DIR/name.png.

    A model that was fitted on volumes takes every file as a volume; its masks are TIFF of several
    pages, or NIfTI.
    """
    begin = time.monotonic()
    estimator = load_model(model, jobs, min_side)
    given = Path(images)
    out = given.with_name(f"{given.stem}_masks") if output is None else Path(output)
    _check_output(out, images)
    _check_areas(areas, estimator, model)
    if estimator.of_volumes:
        wanted = {"--objects": objects, "--outlines": outlines is not None, "--overlay": overlay}
        for name in (name for name, given in wanted.items() if given):
            raise InputError(
                f"{name}: this is made of images, but the model takes volumes. Leave it out, and "
                "open the masks in a program for volumes."
            )
    folder = open_folder(images, logits=logits, leave=out, volume=estimator.of_volumes, **reading)
    values = written_values(estimator)
    numbers = objects or outlines is not None
    refuse_idle(["no_split", "min_area"], numbers, "without --objects or --outlines")
    refuse_idle(["object_value"], len(values) == 2, "with a model of several labels")
    sources = dict(zip(folder.names, folder.images)) if estimator.of_volumes else None
    products: list[Product] = [MaskFiles(out, object_value, values, sources)]
    products += [ProbabilityFiles(out, sources)] if probability else []
    products += [Areas(areas)] if areas is not None else []
    numbered = None
    if numbers:
        names, files = label_names(estimator), _files(folder)
        numbered = Objects(out, names, not no_split, min_area, outlines, files)
        products.append(numbered)
    products += [Overlays(out, numbered)] if overlay else []
    tell_differences(estimator, folder)
    place = plan_workers(estimator, folder)
    out.mkdir(parents=True, exist_ok=True)
    shares, level = [], None if areas is None else AREA_LEVEL
    with shown_progress({"predicting": 1.0}) as shown:
        # Objects are parted by their probabilities where the model has any.
        sure = (
            probability
            or areas is not None
            or (numbered is not None and estimator.has_probabilities)
        )
        found = answers(estimator, folder, sure, level, place, decision)
        for name, one in zip(folder.names, shown.count(found, len(folder), "predicting")):
            for product in products:
                product.add(name, one)
            shares.append(float((one.mask > 0).mean()))
    made = "".join(product.finish() for product in products)
    said = {"output": str(out), "object_value": object_value if len(values) == 2 else None,
            "seconds": round(time.monotonic() - begin, 2)}  # fmt: skip
    if as_json:
        parts: list[dict[str, Any]] = [
            {"name": name, "share": round(share, 6)} for name, share in zip(folder.names, shares)
        ]
        if numbered is not None:
            parts = [part | numbered.to_json(part["name"]) for part in parts]
        say(json.dumps({**said, "images": parts}))
    else:
        say(_summary(said, shares, values, made))
    return 0


def _files(folder: Any) -> dict[str, str]:
    """Return the file of every image, as a path in the folder; a slice has its number in it."""
    each = zip(folder.names, folder.images, folder.pages)
    return {
        name: PurePosixPath(name).with_name(path.name).as_posix()
        if page is None
        else f"{name}{path.suffix}"
        for name, path, page in each
    }


def _check_output(out: Path, images: str) -> None:
    if out.resolve() == Path(images).resolve():
        raise InputError(
            f"{out}: this is the folder of the images, which could be overwritten by their masks. "
            "Give another folder for the masks."
        )


def _check_areas(areas: str | None, estimator: Any, model: str) -> None:
    from cutlearn.store import check_writable

    if areas is None:
        return
    check_writable(areas)
    if not (estimator.has_probabilities and estimator.calibration_.n_images):
        raise InputError(
            f"{model}: this model has no held-out areas, but the intervals of --areas come from "
            "them. Fit it again with `cutlearn fit`, which calibrates; or in Python call "
            "calibrate(images, masks) with images that it was not fitted on, and save it. Or leave "
            "out --areas."
        )
    if estimator.calibration_.without_intervals:
        remark(f"--areas: {estimator.calibration_.without_intervals}")


def _summary(
    said: dict[str, Any], shares: Sequence[float], values: tuple[int, ...], made: str
) -> str:
    """Return a line about what was written."""
    whole = values == tuple(range(len(values)))
    told = f"0 to {values[-1]}" if whole else ", ".join(map(str, values))
    objects = "labels above 0 cover" if values[0] == 0 else "labels after the first cover"
    if len(values) == 2:
        told, objects = f"0 and {said['object_value']}", "the object covers"
    masks = plural(len(shares), "mask")
    return (
        f"{said['output']}: {masks} ({told}){made}, {objects} "
        f"{percent(sum(shares) / len(shares))} on average, {clock(said['seconds'])}"
    )
