"""`cutlearn cut`: one image with a box or strokes in, its mask out; nothing is trained."""

import io
import json
import time
from pathlib import Path
from typing import Any

import click

from cutlearn.app.exits import say
from cutlearn.app.inputs import load_model
from cutlearn.app.options import FILE, output_options
from cutlearn.app.registry import register
from cutlearn.app.tables import percent
from cutlearn.errors import InputError


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
    help="The mask: 0 and 255. [default: beside IMAGE, with _mask behind its name]",
)
@click.option(
    "--probability",
    is_flag=True,
    help="Also write MASK_probability.png: 16-bit grey, where 65535 is a probability of 1.",
)
@click.option(
    "--overlay", is_flag=True, help="Also write MASK_overlay.png: the border over the image."
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
    from cutlearn.images.strokes import read_strokes
    from cutlearn.images.write import write_mask, write_probability
    from cutlearn.model.session import Session

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
    session = Session(None if model is None else load_model(model, None, None))
    session.set_image(read_image(image))
    answer = session.segment(
        None if box is None else (box[1], box[0], box[3], box[2]),
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
        _draw(made[-1], session.image, answer.labels)
    _tell(out, made, float((answer.labels == 1).mean()), time.monotonic() - begin, as_json)
    return 0


def _draw(path: Path, image: Any, labels: Any) -> None:
    from PIL import Image

    from cutlearn.report.displays.overlay import borders_over
    from cutlearn.store import atomic_write

    file = io.BytesIO()
    Image.fromarray((255 * borders_over(image, labels) + 0.5).astype("uint8")).save(file, "PNG")
    atomic_write(path, file.getvalue())


def _tell(out: Path, made: list[Path], share: float, seconds: float, as_json: bool) -> None:
    if as_json:
        said = {"output": str(out), "share": round(share, 6), "seconds": round(seconds, 2)}
        say(json.dumps({**said, "also": [str(path) for path in made]}))
        return
    also = "".join(f", {path.name}" for path in made)
    say(f"{out}{also}: the object covers {percent(share)}, {seconds:.1f} s")
