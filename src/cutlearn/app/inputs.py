"""What commands read: model files and folders, with what there is to say about them."""

from typing import Any

from cutlearn.app.exits import say


def load_model(model: str, jobs: int | None, min_side: int | None) -> Any:
    """Give the estimator of a file, with so many threads, and at a size if one is named."""
    from cutlearn.model.files import load
    from cutlearn.run.workers import thread_count

    estimator = load(model)
    thread_count(jobs)  # refuses 0 before any work
    estimator.n_jobs = jobs
    if min_side is not None:
        estimator.min_side = min_side
    return estimator


def open_folder(
    images: str, masks: str | None = None, logits: str | None = None, **reading: Any
) -> Any:
    """Check a folder of images, with masks and logits if given; say on stderr what is passed over.

    Returns
    -------
    Folder, or GivenFolder with logits
    """
    from cutlearn.features.given import with_logits
    from cutlearn.images.folder import read_folder

    folder = read_folder(images, masks, **reading)
    for note in folder.notes:
        say(f"note: {note}", err=True)
    return folder if logits is None else with_logits(folder, logits)
