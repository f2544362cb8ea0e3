"""`cutlearn cut` and `cutlearn refine`: masks without training.

`cut` segments one image from a box or strokes. `refine` turns the logits of any network and its
images into masks.
"""

import json
import os
import time
from functools import partial
from pathlib import Path
from typing import Any

import click

from cutlearn.app.answers import Prediction
from cutlearn.app.exits import say
from cutlearn.app.inputs import load_model, open_folder, remark
from cutlearn.app.options import (
    FILE,
    FOLDER,
    IMAGES,
    image_options,
    output_options,
    shown_progress,
    strict_reading,
)
from cutlearn.app.products import MaskFiles, Overlays, ProbabilityFiles, Product, write_picture
from cutlearn.app.registry import register
from cutlearn.app.tables import percent
from cutlearn.errors import InputError, shown
from cutlearn.run.progress import clock

Box = tuple[int, int, int, int]
# A stroke is red or blue if that channel is at least so bright and both others at most so.
BRIGHT, DARK = 0.6, 0.35


@register
@click.command()
@click.argument("image", type=FILE)
@click.option(
    "--box",
    type=int,
    nargs=4,
    metavar="X0 Y0 X1 Y1",
    help="A box around the object, in pixels: its left, top, right and bottom, the last two just "
    "outside.",
)
@click.option(
    "--seeds",
    type=FILE,
    metavar="STROKES.png",
    help="Strokes at the size of the image: 0 unmarked, 1 object, 2 background; or in colour: "
    "red object, blue background.",
)
@click.option("--model", type=FILE, help="A model file whose features and weights are used.")
@click.option(
    "-o",
    "--output",
    type=FILE,
    metavar="MASK.png",
    help="The mask, a PNG or TIFF: 0 and 255. [default: next to IMAGE, NAME_mask.png]",
)
@click.option(
    "--probability",
    is_flag=True,
    help="Also write MASK_probability.png: 16-bit grey, where 65535 is a probability of 1.",
)
@click.option(
    "--overlay",
    is_flag=True,
    help="Also write MASK_overlay.png: the border and the box over the image.",
)
@output_options
def cut(
    image: str,
    box: tuple[int, int, int, int] | None,
    seeds: str | None,
    model: str | None,
    output: str | None,
    probability: bool,
    overlay: bool,
    as_json: bool,
) -> int:
    """Cut the object out of one image, from a box or strokes; no training, about a second."""
    from cutlearn.images.read import read_image
    from cutlearn.images.write import lossless_format, write_mask, write_probability
    from cutlearn.model.session.session import Session

    begin = time.monotonic()
    if box is None and seeds is None:
        raise InputError(
            f"{image}: neither a box nor strokes say what to cut out. Give --box X0 Y0 X1 Y1, or "
            "--seeds STROKES.png."
        )
    given = Path(image)
    out = given.with_name(f"{given.stem}_mask.png") if output is None else Path(output)
    if out.resolve() == given.resolve():
        raise InputError(f"{out}: this is the image itself. Give another file for the mask.")
    lossless_format(out)
    session = Session(None if model is None else load_model(model, None, None))
    session.set_image(read_image(image))
    used = None if box is None else _within(box, session.shape)
    answer = session.segment(
        None if used is None else (used[1], used[0], used[3], used[2]),
        None if seeds is None else read_strokes(seeds, session.shape),
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    write_mask(out, answer.labels, 255 if session.n_labels == 2 else None)
    made = []
    if probability:
        made.append(out.with_name(f"{out.stem}_probability.png"))
        write_probability(made[-1], answer.probability[..., 1])
    if overlay:
        made.append(out.with_name(f"{out.stem}_overlay.png"))
        _draw(made[-1], session.image, answer.labels, used)
    share, seconds = float((answer.labels == 1).mean()), time.monotonic() - begin
    said: dict[str, Any] = {"output": str(out), "share": round(share, 6)}
    if as_json:
        said |= {"seconds": round(seconds, 2), "also": [str(path) for path in made], "box": used}
        say(json.dumps(said))
        return 0
    also = "".join(f", {path.name}" for path in made)
    say(f"{out}{also}: the object covers {percent(share)}, {seconds:.1f} s")
    if used is not None:
        x0, y0, x1, y1 = used
        clipped = "" if used == box else ", clipped to the image"
        say(f"box: from X0 Y0 {x0} {y0} to X1 Y1 {x1} {y1}, {x1 - x0} x {y1 - y0} pixels{clipped}")
    return 0


def _within(box: Box, shape: tuple[int, int]) -> Box:
    """Return the part of a box that lies within the image; refuse an empty one."""
    x0, y0, x1, y1 = max(box[0], 0), max(box[1], 0), min(box[2], shape[1]), min(box[3], shape[0])
    if x0 < x1 and y0 < y1:
        return x0, y0, x1, y1
    raise InputError(
        f"--box {' '.join(map(str, box))}: it holds no pixel of the image, which has {shape[1]} x "
        f"{shape[0]} pixels. Give the left, top, right and bottom, X0 Y0 X1 Y1, with X0 < X1 and "
        "Y0 < Y1."
    )


def _draw(path: Path, image: Any, labels: Any, box: Box | None) -> None:
    """Write the border of the mask and the box over the image."""
    import numpy as np

    from cutlearn.report.displays import borders_over

    picture = borders_over(image, labels)
    if box is not None:  # dashes, black and white: seen on any image
        x0, y0, x1, y1 = box
        wide = max(1, min(labels.shape) // 400)
        frame = np.zeros(labels.shape, bool)
        frame[y0:y1, x0:x1] = True
        frame[y0 + wide : y1 - wide, x0 + wide : x1 - wide] = False
        rows, columns = np.nonzero(frame)
        picture[rows, columns] = ((rows + columns) // (4 * wide) % 2)[:, None]
    write_picture(path, picture)


def read_strokes(path: str | os.PathLike[str], shape: tuple[int, int]) -> Any:
    """Return strokes of a file as seeds, (h, w) int16: -1 unmarked, 1 object, 0 background.

    In the file, numbers (0 unmarked, 1 object, 2 background) or colours over anything: red is
    object, blue background, and everything else (and what is transparent) unmarked.
    """
    import numpy as np

    from cutlearn.images.decode import JPEG, content, decode, decoding
    from cutlearn.images.read import MAX_BYTES, MAX_PIXELS
    from cutlearn.images.sample import FREE

    data, name = content(path, None, MAX_BYTES)
    if data[: len(JPEG)] == JPEG:
        raise InputError(
            f"{name}: the strokes are a JPEG, which smears their values, but must be a PNG or "
            "TIFF. Export them again as PNG."
        )
    with decoding(name):
        array = decode(data, name, MAX_PIXELS, False)
    if array.shape[:2] != shape:
        raise InputError(
            f"{name}: the strokes have {array.shape[0]} rows and {array.shape[1]} columns, but "
            f"the image has {shape[0]} and {shape[1]}. Draw them at the size of the image."
        )
    colored = array.ndim == 3 and array.shape[2] >= 3
    if not colored or (array[:, :, :3] == array[:, :, :1]).all():
        values = array if array.ndim == 2 else array[:, :, 0]
        if not np.isin(values, (0, 1, 2)).all():
            raise InputError(
                f"{name}: the strokes have values up to {values.max()}, but must be 0 (unmarked), "
                "1 (object) and 2 (background), or red and blue. Save them so."
            )
        return np.choose(values.astype(np.intp), [FREE, 1, 0]).astype(np.int16)
    unit = array.astype(np.float32)
    unit /= np.float32(np.iinfo(array.dtype).max if array.dtype.kind == "u" else 1)
    red, green, blue = (unit[:, :, k] for k in range(3))
    opaque = unit[:, :, 3] > 0.5 if unit.shape[2] == 4 else np.ones(red.shape, bool)
    seeds = np.full(red.shape, FREE, np.int16)
    seeds[opaque & (red >= BRIGHT) & (green <= DARK) & (blue <= DARK)] = 1
    seeds[opaque & (blue >= BRIGHT) & (green <= DARK) & (red <= DARK)] = 0
    return seeds


@register
@click.command()
@click.argument("logits", type=FOLDER)
@click.argument("images", type=IMAGES)
@click.option(
    "-o", "--output", type=FOLDER, required=True, help="Folder for the masks; made if missing."
)
@click.option(
    "--values",
    type=click.Choice(["auto", "logits", "probabilities"]),
    default="auto",
    show_default=True,
    help="What the arrays of LOGITS hold. auto: probabilities if all numbers lie in [0, 1].",
)
@click.option(
    "--probability",
    is_flag=True,
    help="Also write DIR/probability/name.png: 16-bit grey, where 65535 is a probability of 1.",
)
@click.option(
    "--overlay", is_flag=True, help="Also draw the borders over the images: DIR/overlay/."
)
@image_options
@strict_reading
@output_options
def refine(
    logits: str,
    images: str,
    output: str,
    values: str,
    probability: bool,
    overlay: bool,
    as_json: bool,
    **reading: Any,
) -> int:
    """Make masks of a network's LOGITS and its IMAGES: no training, one exact cut for two labels.

    LOGITS holds a file for each image, by name: .npy or .npz with (h, w) log-odds of the object or
    (h, w, L) scores of labels, or with probabilities of these; or probabilities as PNG or TIFF.
    """
    import numpy as np

    from cutlearn.images.logits import ARRAYS, array_kind
    from cutlearn.model.session.refine import refine as refined

    begin, out = time.monotonic(), Path(output)
    if out.resolve() in (Path(images).resolve(), Path(logits).resolve()):
        raise InputError(f"{out}: this folder holds what is read. Give another one for the masks.")
    # Pictures become log-odds when they are read; arrays are kept as they are.
    folder = open_folder(images, logits=logits, arrays="logits", leave=out, **reading)
    option = "Say which they are: --values logits, or --values probabilities."
    values = array_kind(folder.given, values, option)
    remark(f"{shown(logits)}: read as {values}")
    products: list[Product] = []
    shares = []
    with shown_progress({"refining": 1.0}) as bar:
        for k, name in enumerate(bar.count(folder.names, len(folder), "refining")):
            sample = folder.image(k)
            scores = sample.extra[..., 0] if sample.extra.shape[2] == 1 else sample.extra
            if not products:
                products = [MaskFiles(out, 255, tuple(range(max(2, sample.extra.shape[2]))))]
                products += [ProbabilityFiles(out)] if probability else []
                products += [Overlays(out)] if overlay else []
            kind = values if folder.given[k].suffix.lower() in ARRAYS else "logits"
            if kind == "probabilities":
                scores = scores.clip(0, 1)  # enlarging may round past the ends
            found = refined(scores, sample.image, probability, kind)
            labels, q = found if isinstance(found, tuple) else (found, None)
            for product in products:
                product.add(name, Prediction(partial(folder.image, k), labels, q))
            shares.append(float(np.mean(labels > 0)))
    made = "".join(product.finish() for product in products)
    seconds = time.monotonic() - begin
    if as_json:
        parts = [{"name": n, "share": round(s, 6)} for n, s in zip(folder.names, shares)]
        said = {"output": str(out), "values": values, "seconds": round(seconds, 2)}
        say(json.dumps({**said, "images": parts}))
    else:
        mean = percent(sum(shares) / len(shares))
        say(f"{out}: {len(shares)} masks{made}, the object covers {mean}, {clock(seconds)}")
    return 0
