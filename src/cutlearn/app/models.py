"""A model file of the command line: loaded, with the threads and the size that were asked for."""

from typing import Any

from cutlearn.run.workers import thread_count


def load_model(model: str, jobs: int | None, min_side: int | None) -> Any:
    """Give the estimator of a file, with so many threads, and at a size if one is named."""
    from cutlearn.model.files import load

    estimator = load(model)
    thread_count(jobs)  # refuses 0 before any work
    estimator.n_jobs = jobs
    if min_side is not None:
        estimator.min_side = min_side
    return estimator
