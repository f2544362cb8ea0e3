"""One thread inside of BLAS while work is mapped: the same bits however many work at once.

BLAS may split a product by the number of its threads, which changes last bits, and its threads
would fight with ours: images, folds and nets already run side by side.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

# Whether this is a task of a cluster, which has one thread of its own.
in_task: ContextVar[bool] = ContextVar("in_task", default=False)
_lock = threading.Lock()
_inside: dict[str, Any] = {"count": 0, "limit": None}


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit BLAS to one thread until the last of those who asked for it has left."""
    with _lock:
        if _inside["count"] == 0:
            _inside["limit"] = _controller().limit(limits=1, user_api="blas")
            _inside["limit"].__enter__()
        _inside["count"] += 1
    try:
        yield
    finally:
        with _lock:
            _inside["count"] -= 1
            if _inside["count"] == 0:
                _inside["limit"].__exit__(None, None, None)


@contextmanager
def as_task() -> Iterator[None]:
    """Work as one task of many: in one thread, whatever is asked for of all processors."""
    token = in_task.set(True)
    try:
        with one_thread():
            yield
    finally:
        in_task.reset(token)
