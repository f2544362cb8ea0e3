"""Which cluster: an address, "local:4" or a client in; a connected `Cluster` out, once for each."""

import atexit
import logging
import re
from typing import Any

from cutlearn.errors import InputError, quoted
from cutlearn.run.cluster import Cluster
from cutlearn.run.travel import Tag, differs, versions

ADDRESS = re.compile(r"(tcp|tls)://\S+")
LOCAL = re.compile(r"local:([1-9]\d{0,3})")
# Seconds to find the scheduler, and to wait for a first worker.
CONNECT, FIRST_WORKER = 10.0, 60.0

_OPEN: dict[str, Cluster] = {}


def _check_workers(client: Any, name: str, tag: Tag) -> None:
    try:
        client.wait_for_workers(1, timeout=FIRST_WORKER)
    except TimeoutError:
        raise InputError(
            f"{name}: the cluster has no workers, though {FIRST_WORKER:.0f} seconds were waited. "
            f"Start some with `dask worker {name}`."
        ) from None
    try:
        found = client.run(versions)
    except ImportError as error:
        raise InputError(
            f"{name}: its workers cannot import cutlearn ({error}). Install the same cutlearn for "
            "the Python of all workers."
        ) from None
    for address, there in sorted(found.items()):
        if there != tag:
            raise InputError(differs(f"{name}: the worker {address}", there, tag))


def is_cluster(n_jobs: Any) -> bool:
    """Whether `n_jobs` names a cluster or is one; nothing is connected to."""
    if isinstance(n_jobs, str):
        return bool(ADDRESS.fullmatch(n_jobs) or LOCAL.fullmatch(n_jobs))
    return isinstance(n_jobs, Cluster) or _is_client(n_jobs)


def _is_client(value: Any) -> bool:
    return any(f"{c.__module__}.{c.__name__}" == "distributed.client.Client"
               for c in type(value).__mro__)  # fmt: skip


def cluster_of(given: Any) -> Cluster:
    """Connect to a cluster, once for each address or client; this process leaves it at its end."""
    if isinstance(given, Cluster):
        return given
    name = given if isinstance(given, str) else str(given.scheduler.address)
    known = _OPEN.get(name)
    if known is not None and known.client.status == "running":
        return known
    made = _connected(name) if isinstance(given, str) else Cluster(given, name, ())
    try:
        _check_workers(made.client, name, versions())
    except BaseException:
        made.close()
        raise
    _OPEN[name] = made
    return made


def _connected(name: str) -> Cluster:
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise InputError(
            f"n_jobs={name!r}: the package distributed, which clusters need, is not installed. "
            "Install it with `pip install cutlearn[cluster]`."
        ) from None
    local, own = LOCAL.fullmatch(name), None
    if local is None and ADDRESS.fullmatch(name) is None:
        raise InputError(
            f"n_jobs={quoted(name)} is not a cluster. Give the address of a scheduler, such as "
            "tcp://host:8786, or local:4 for four processes of this machine."
        )
    if local is not None:
        own = LocalCluster(
            n_workers=int(local[1]), threads_per_worker=1, processes=True, host="127.0.0.1",
            dashboard_address=None, memory_limit=None, silence_logs=logging.CRITICAL,
        )  # fmt: skip
    # What becomes of the scheduler is told by an error, in one sentence.
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
    try:
        client = Client(own or name, timeout=CONNECT, set_as_default=False)
    except (OSError, TimeoutError) as error:
        raise InputError(
            f"{name}: no scheduler of a cluster answers there. Check the address and that "
            "`dask scheduler` runs."
        ) from error
    return Cluster(client, name, (client,) if own is None else (client, own))


def leave_clusters() -> None:
    """Leave all clusters that were connected to by name, and end those of this machine."""
    for cluster in list(_OPEN.values()):
        cluster.close()


atexit.register(leave_clusters)
