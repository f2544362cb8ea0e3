"""`cutlearn rank`: a model and images without masks in; what to annotate next out."""

import json
import time
from typing import TYPE_CHECKING, Any

import click

from cutlearn.app.answers import asked_of_all
from cutlearn.app.exits import say
from cutlearn.app.inputs import load_model, open_folder, plan_workers, remark, tell_differences
from cutlearn.app.options import (
    FILE,
    IMAGES,
    image_options,
    min_side_option,
    output_options,
    place_options,
    shown_progress,
    strict_reading,
)
from cutlearn.app.registry import register
from cutlearn.app.tables import percent, text_table
from cutlearn.errors import InputError, plural
from cutlearn.run.progress import clock

if TYPE_CHECKING:
    from cutlearn.model.ranking import Ranked

# Images that get a row of pictures, and a row of the table on a terminal.
SHOWN, PRINTED = 8, 20


@register
@click.command(short_help="Say which images to annotate next.")
@click.argument("model", type=FILE)
@click.argument("images", type=IMAGES)
@click.option(
    "-o", "--output", type=FILE, metavar="PAGE.html", help="Also write a page with the first ones."
)
@image_options
@strict_reading
@place_options
@min_side_option
@output_options
def rank(
    model: str, images: str, output: str | None, jobs: int | None, min_side: int | str | None,
    as_json: bool, **reading: Any,
) -> int:  # fmt: skip
    """Order IMAGES by how much annotating them would teach the model.

    Images that have masks are left out: those that the model was fitted on, and those with a mask
    in the same folder, such as a_mask.png for a.png.
    """
    from cutlearn.images.sample import as_sample
    from cutlearn.model.size import at_side
    from cutlearn.report.page.pages import Candidate, next_page
    from cutlearn.store import atomic_write, check_writable

    begin = time.monotonic()
    estimator = load_model(model, jobs, min_side)
    if not hasattr(estimator, "rank"):
        raise InputError(
            f"{model}: this model is of the class {type(estimator).__name__}, which cannot rank "
            "images. Ranking needs a Segmenter, which knows the features of what it has learned "
            "from. Fit one with `cutlearn fit`."
        )
    if output is not None:
        check_writable(output)
    folder = open_folder(images, **reading)
    folder, left_out = _without_masks(estimator, folder, images)
    tell_differences(estimator, folder)
    place = plan_workers(estimator, folder)
    # All images are ranked together, by a few numbers of each.
    with shown_progress({"comparing": 1.0}) as progress:
        windows = (
            found for _, found in asked_of_all(estimator, folder, estimator.describing(), place)
        )
        seen = list(progress.count(windows, len(folder), "comparing"))
    order = estimator.order(seen, [one.shape for one in seen])
    if output is not None:
        head = [at_side(as_sample(folder.image(r.image)), estimator.min_side)
                for r in order[:SHOWN]]  # fmt: skip
        maps = estimator.predict_proba(head) if estimator.has_probabilities else [None] * len(head)
        title = f"What to annotate next of {plural(len(folder), 'image')}"
        shown = [Candidate(sample.image, q) for sample, q in zip(head, maps)]
        atomic_write(output, next_page(title, folder.names, order, shown).encode())
    seconds = time.monotonic() - begin
    if as_json:
        said = {"model": model, "report": output, "left_out": left_out,
                "seconds": round(seconds, 2)}  # fmt: skip
        shapes = [(one.height, one.width) for one in folder.facts]
        rows = [
            _row(folder.names[r.image], r.at(seen[r.image].shape, shapes[r.image])) for r in order
        ]
        say(json.dumps({**said, "images": rows}))
        return 0
    table = [
        [folder.names[r.image], str(k), percent(r.score)]
        for k, r in enumerate(order[:PRINTED], 1)
    ]  # fmt: skip
    say(text_table(["image", "rank", "tells of all"], table))
    look = "" if output is None else f", look at {output}"
    say(f"{images}: {plural(len(folder), 'image')} ranked, {clock(seconds)}{look}")
    return 0


def _without_masks(estimator: Any, folder: Any, images: str) -> tuple[Any, int]:
    """Return the folder without images that have masks and without these masks; and their number.

    Images have masks if the model was fitted on them, or if a file in the folder is named so.
    """
    from cutlearn.images.listing import is_mask_name, pair

    training = getattr(estimator, "training_", None)
    known = [] if training is None else training.known(folder.facts)
    truths = {name for name in folder.names if is_mask_name(name)}
    pairs = pair((name for name in folder.names if name not in truths), truths).names
    masked = {folder.names[i] for i in known} | pairs.keys()
    out = masked | set(pairs.values())
    kept = [i for i, name in enumerate(folder.names) if name not in out]
    if not kept:
        raise InputError(
            f"{images}: every image has a mask already, so there is nothing to rank. Name a folder "
            "with images that are not annotated."
        )
    if masked:
        remark(f"{plural(len(masked), 'image')} of {len(masked) + len(kept)} left out, which "
               f"{'has a mask' if len(masked) == 1 else 'have masks'} already")  # fmt: skip
    return folder.take(kept), len(masked)


def _row(name: str, ranked: "Ranked") -> dict[str, Any]:
    """Return an image of the order, its windows in pixels of the file."""
    from cutlearn.report.page.pages import FRAMED

    windows = [[w.top, w.bottom, w.left, w.right] for w in ranked.windows[:FRAMED]]
    return {"name": name, "score": ranked.score, "windows": windows}
