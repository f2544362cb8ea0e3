"""`cutlearn refine`: logits of any network and its images in, masks out; nothing is trained."""

import json
import time
from functools import partial
from pathlib import Path
from typing import Any

import click

from cutlearn.app.answers import Answer
from cutlearn.app.exits import say
from cutlearn.app.inputs import open_folder, remark
from cutlearn.app.options import (
    FOLDER,
    IMAGES,
    image_options,
    output_options,
    shown_progress,
    strict_reading,
)
from cutlearn.app.products import Masks, Overlays, Probabilities, Product
from cutlearn.app.registry import register
from cutlearn.app.tables import percent
from cutlearn.errors import InputError, shown
from cutlearn.run.progress import clock


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

    from cutlearn.images.logits import ARRAYS
    from cutlearn.model.session.refine import refine as refined

    begin, out = time.monotonic(), Path(output)
    if out.resolve() in (Path(images).resolve(), Path(logits).resolve()):
        raise InputError(f"{out}: this folder holds what is read. Give another one for the masks.")
    folder = open_folder(images, logits=logits, leave=out, **reading)
    # Pictures become log-odds when they are read; arrays are kept as they are.
    arrays = [path for path in folder.given if path.suffix.lower() in ARRAYS]
    values = _values(values, arrays) if arrays else "probabilities"
    remark(f"{shown(logits)}: read as {values}")
    products: list[Product] = []
    shares = []
    with shown_progress({"refining": 1.0}) as bar:
        for k, name in enumerate(bar.count(folder.names, len(folder), "refining")):
            sample = folder.image(k)
            scores = sample.extra[..., 0] if sample.extra.shape[2] == 1 else sample.extra
            if not products:
                products = [Masks(out, 255, tuple(range(max(2, sample.extra.shape[2]))))]
                products += [Probabilities(out)] if probability else []
                products += [Overlays(out)] if overlay else []
            kind = values if folder.given[k] in arrays else "logits"
            if kind == "probabilities":
                scores = scores.clip(0, 1)  # enlarging may round past the ends
            found = refined(scores, sample.image, probability, kind)
            labels, q = found if isinstance(found, tuple) else (found, None)
            for product in products:
                product.add(name, Answer(partial(folder.image, k), labels, q))
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


def _values(values: str, arrays: list[Path]) -> str:
    """Return what the arrays hold, logits or probabilities; all are checked before work starts."""
    from cutlearn.images.logits import read_array
    from cutlearn.model.session.refine import like_probabilities

    if values == "logits":
        return values
    likely = {path: like_probabilities(read_array(path)) for path in arrays}
    if all(likely.values()):
        return "probabilities"
    if values == "auto" and not any(likely.values()):
        return "logits"
    other = next(path for path, probable in likely.items() if not probable)
    if values == "probabilities":
        raise InputError(
            f"--values probabilities: {shown(other)} has numbers outside of [0, 1]. Use --values "
            "logits if these are logits."
        )
    one = next(path for path, probable in likely.items() if probable)
    raise InputError(
        f"{shown(one)} lies in [0, 1] throughout, as probabilities do, but {shown(other)} does "
        "not. Say which they are: --values logits, or --values probabilities."
    )
