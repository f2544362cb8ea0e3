"""Input of commands: model files and folders, with notes on them."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cutlearn.app.exits import in_options, say
from cutlearn.app.options import CLUSTER, refuse_idle, shown_progress
from cutlearn.errors import InputError

if TYPE_CHECKING:
    from cutlearn.run.executor import Executor

# Seconds in which a folder is looked at without a word.
SILENT = 3.0


def load_model(model: str, jobs: int | None, min_side: int | str | None) -> Any:
    """Return the estimator of a file, with a number of threads, and at a size if one is given."""
    from cutlearn.model.model_files import load

    estimator = load(model)
    estimator.n_jobs = where_to_work(jobs)
    if min_side is not None:
        learned = estimator.min_side
        if learned not in (None, min_side):
            remark(
                f"{model} was learned at a smaller side of {learned} pixels; at another size "
                "objects look different to it, and masks may be much worse"
            )
        estimator.min_side = min_side
    return estimator


def where_to_work(jobs: int | None) -> Any:
    """Return the threads of --jobs, or the cluster of --cluster, connected before any work."""
    from cutlearn.run.executor import executor_of

    cluster = click.get_current_context().meta.get(CLUSTER)
    if cluster is not None and jobs is not None:
        raise InputError(
            "--jobs and --cluster are both given, but work runs in one place. Leave one of them "
            "out; a cluster has the threads that its workers were started with."
        )
    executor_of(jobs if cluster is None else cluster)  # refuses 0, and what is no cluster
    return jobs if cluster is None else cluster


def open_folder(
    images: str,
    masks: str | None = None,
    logits: str | None = None,
    arrays: str = "auto",
    **reading: Any,
) -> Any:
    """Check a folder of images, with masks and logits if given; print what the user must know.

    `arrays`: what arrays of logits hold, "logits", "probabilities" or "auto".

    Returns
    -------
    Folder, or GivenFolder with logits
    """
    from cutlearn.errors import InputError
    from cutlearn.images.folder import read_folder
    from cutlearn.images.logits import with_logits

    if "volume" in reading:
        why = "on images: distances and slices are those of volumes"
        refuse_idle(["spacing", "empty_void"], reading["volume"], why)
    folders = [Path(one).is_dir() for one in (images, masks) if one is not None]
    refuse_idle(["pattern"], folders[0] or not Path(images).exists(), "on a single image")
    refuse_idle(["mask_suffix"], any(folders), "on a single mask")
    if logits is not None and reading.get("volume"):
        raise InputError(
            "--logits: logits of images are read, but not of volumes. Give them in Python: "
            "Volume(image, extra=logits)."
        )

    begin = time.monotonic()
    with shown_progress({"looking": 1.0}) as shown:

        def progress(done: int, total: int) -> None:
            if time.monotonic() - begin > SILENT:
                shown.at("looking", done, total, "files")

        folder = read_folder(images, masks, progress=progress, **reading)
    for note in folder.notes:
        remark(note)
    if logits is None:
        return folder
    given = with_logits(folder, logits, arrays)
    if given.probabilities and arrays == "auto":
        remark(f"{logits}: read as probabilities")
    return given


def tell_differences(estimator: Any, folder: Any) -> list[int]:
    """Print how images differ from training images; return the places of training images."""
    training = getattr(estimator, "training_", None)
    if training is None:
        return []
    sized = estimator.min_side is None and not hasattr(estimator, "shape")
    for told in training.differences(folder.facts, folder.names, sized):
        remark(told)
    known: list[int] = training.known(folder.facts)
    return known


def written_values(estimator: Any) -> tuple[int, ...]:
    """Return the values of labels in written masks: of several labels, those of the fit."""
    training: Any = getattr(estimator, "training_", None)
    n_labels = len(estimator.classes_)
    plain = n_labels == 2 or training is None or len(training.values) != n_labels
    if plain or max(training.values) > 255:
        return tuple(range(n_labels))
    return tuple(training.values)


def label_names(estimator: Any) -> list[str]:
    """Return the names of labels: those of the user, or their values in the training masks."""
    training = getattr(estimator, "training_", None)
    if training is not None and training.names:
        return list(training.names)
    return [str(value) for value in written_values(estimator)]


def plan_workers(
    estimator: Any, folder: Any, keeps: bool = False, depths: list[int] | None = None
) -> "Executor":
    """Return the executor of a command: as many threads as memory allows, or the cluster.

    Prints which images are resized; refuses, before any work, what the free memory cannot hold.
    `depths`: slices that are processed of every volume; all by default.
    """
    from cutlearn.model.budget import Load, images_at_once
    from cutlearn.model.size import worked_shape
    from cutlearn.run.executor import Threads, executor_of

    shapes = [(one.height, one.width) for one in folder.facts]
    depths = [one.depth for one in folder.facts] if depths is None else depths
    side = estimator.min_side
    large = [i for i, shape in enumerate(shapes) if worked_shape(shape, None) != shape]
    if side is None and large:
        rows, columns = worked_shape(shapes[large[0]], None)
        high, wide = shapes[large[0]]
        remark(
            f"{folder.names[large[0]]} has {wide} x {high} pixels and is worked at {columns} x "
            f"{rows}; its mask has full size"
            + (f". So are {len(large) - 1} others" if len(large) > 1 else "")
            + ". Another size: min_side"
        )
    place = executor_of(-1 if estimator.n_jobs is None else estimator.n_jobs)
    fitted = getattr(estimator, "model_", None)
    load = None if fitted is None else Load.of(fitted.labels)
    # With a cluster, only results are kept here.
    threads = images_at_once(shapes, side, place.threads, keeps, depths=depths, load=load)
    return place if place.remote else Threads(threads)


def is_beyond_memory(estimator: Any, folder: Any) -> bool:
    """Return whether images must be read on use, since memory cannot hold all; print it.

    Only if the estimator can do without them, and no file is a volume.
    """
    from cutlearn.model.budget import disk_message, fits

    shapes, side = [(one.height, one.width) for one in folder.facts], estimator.min_side
    if not estimator.streams or any(one.depth > 1 for one in folder.facts) or fits(shapes, side):
        return False
    remark(disk_message(shapes, side))
    return True


def is_read_away(estimator: Any, folder: Any) -> bool:
    """Return whether the workers of a cluster may read the images of a fit themselves."""
    from cutlearn.run.executor import executor_of

    place = executor_of(-1 if estimator.n_jobs is None else estimator.n_jobs)
    flat = all(one.depth == 1 for one in folder.facts)
    return place.remote and bool(estimator.streams) and flat


def remark(text: str) -> None:
    """Write a note on stderr, in the words of the command line."""
    say(f"note: {in_options(text)}", err=True)
