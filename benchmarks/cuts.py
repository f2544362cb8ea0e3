"""One table: our cuts beside PyMaxflow's, on the kinds of energies that segmentation makes.

Every figure comes from a process of its own, rounds interleaved, CPU time, medians; the values
must agree to the last bit. `total` is from arrays to labels, `solve` the search alone, `MB` the
growth of the peak memory in the first call. Run with `make bench`, or
`python benchmarks/cuts.py --rounds 5 2d4-512-seg ...`.
"""

import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import instances
import numpy as np

TARGETS = {"2d": 0.45, "3d": 0.45, "3d6-96-seeds": 0.12, "envelopes": 0.10}


def measured(work):
    """CPU milliseconds and the result."""
    start = time.process_time()
    result = work()
    return 1e3 * (time.process_time() - start), result


def memory_mb(field):
    """VmRSS (now) or VmHWM (peak) of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    raise OSError(f"no {field} on this system")


def watched(work):
    """The growth of the peak memory while `work` runs, beside its CPU milliseconds and result."""
    ctypes.CDLL(None).malloc_trim(0)  # what the allocator kept would hide what the work takes
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before = memory_mb("VmRSS")
    spent, result = measured(work)
    return memory_mb("VmHWM") - before, spent, result


def ours(instance):
    grown, total, cut = watched(lambda: instance.energy().minimize())
    flow = instance.energy()._terms.flow(np.empty(0, np.int8))
    solve, _ = measured(flow.solve)
    return {"total": total, "solve": solve, "value": cut.value, "mb": grown}


def pymaxflow(instance):
    import maxflow

    u = instance.unary
    auxiliary = [e.hinges() for e in instance.envelopes]

    def build():
        graph = maxflow.Graph[float](u.size, 2 * u.size)
        nodes = graph.add_grid_nodes(u.shape)
        slices = (
            instances.cl.graph.grid.grid_offsets(u.ndim, instance.connectivity)
            if instance.connectivity
            else []
        )
        for offset, weights in zip(slices, instance.weights):
            structure = np.zeros((3,) * u.ndim)
            structure[tuple(1 + d for d in offset)] = 1
            full = np.zeros(u.shape)
            crop = tuple(slice(max(0, -d), s - max(0, d)) for s, d in zip(u.shape, offset))
            full[crop] = weights
            graph.add_grid_edges(nodes, full, structure=structure, symmetric=True)
        linear = u.copy().ravel()
        constant = 0.0
        for e, (slope, b, alpha, beta) in zip(instance.envelopes, auxiliary):
            linear[e.members] += slope
            constant += b
            z = graph.add_nodes(alpha.size)
            for k in range(alpha.size):
                graph.add_edges(
                    np.full(e.members.size, z[k]), e.members,
                    np.full(e.members.size, alpha[k]), np.zeros(e.members.size),
                )  # fmt: skip
                unary = beta[k] - alpha[k] * e.members.size
                graph.add_tedge(z[k], max(-unary, 0), max(unary, 0))
                constant += min(unary, 0)
        linear = linear.reshape(u.shape)
        graph.add_grid_tedges(nodes, np.maximum(-linear, 0), np.maximum(linear, 0))
        return graph, nodes, constant + np.minimum(linear, 0).sum()

    solved = []

    def everything():
        graph, nodes, constant = build()
        solved.append(measured(graph.maxflow))
        graph.get_grid_segments(nodes)
        return constant

    grown, total, constant = watched(everything)
    (solve, flow) = solved[0]
    return {"total": total, "solve": solve, "value": constant + flow, "mb": grown}


PEERS = {"cutlearn": ours, "pymaxflow": pymaxflow}


def one(name, peer, limit):
    """Run one peer on one instance in a fresh process."""
    command = [sys.executable, __file__, "--one", name, peer]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return None
    return json.loads(done.stdout)


def row(name, rounds, limit):
    runs = {peer: [] for peer in PEERS}
    for _ in range(rounds):
        for peer, found in runs.items():
            if found is not None and (not found or found[-1] is not None):
                found.append(one(name, peer, limit))
    line = f"{name:18s}"
    medians = {}
    for peer, found in runs.items():
        if None in found:
            line += f"{'over ' + str(limit) + ' s':>26s}"
            continue
        m = {k: statistics.median(r[k] for r in found) for k in ("total", "solve", "mb")}
        medians[peer] = m["total"]
        line += f"{m['total']:10.1f}{m['solve']:9.1f}{m['mb']:7.0f}"
    values = {r["value"] for found in runs.values() for r in found if r}
    if len(medians) == 2:
        ratio = medians["cutlearn"] / medians["pymaxflow"]
        target = TARGETS.get(name) or TARGETS.get(name[:2]) or TARGETS.get(name.split("-")[0])
        line += f"{ratio:8.2f}" + (f"{target:8.2f}" if target else "       -")
    if len(values) > 1:
        line += f"   VALUES DIFFER {sorted(values)}"
    return line


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=[])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=int, default=60, help="seconds for one run of one peer")
    parser.add_argument("--one", nargs=2, metavar=("NAME", "PEER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        name, peer = options.one
        print(json.dumps(PEERS[peer](instances.make(name))))
        return
    load = ", ".join(f"{x:.1f}" for x in os.getloadavg())
    print(f"CPU ms, medians of {options.rounds} rounds; load average {load}")
    head = f"{'total':>10s}{'solve':>9s}{'MB':>7s}"
    print(f"{'':18s}{'cutlearn':>26s}{'PyMaxflow':>26s}")
    print(f"{'instance':18s}{head}{head}{'ratio':>8s}{'target':>8s}")
    for name in options.names or instances.INSTANCES:
        print(row(name, options.rounds, options.limit), flush=True)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
