"""One table: our cuts beside those of other packages, on the energies that segmentation makes.

    make bench, or python benchmarks/cuts.py [--quick] [--only 2d4-512] [--rounds 5]
    [--peers PyMaxflow ...] [--data DIR] [--again]

Every figure is CPU milliseconds from numpy arrays to labels, measured in two ways. Fresh: the
median over rounds of processes of their own, the solvers taking turns within a round. Again: the
least over rounds in one process, ours and what it is compared with taking turns; columns `again`,
ours, and `ratio`. A ratio is ours to that of the solver, or to that of our own other task, named
beside it; the target is that of calls made again. `MB` is the growth of the peak memory in the
call, without its inputs. All values must be equal, to the last bit where numbers are whole,
and so must the energies of the labels; otherwise the exit status is 1. Rows of real images need
a folder of data sets, DIR; --again takes one round of fresh processes only.

A solver over the limit is told as "> limit" and not run again; those that no ratio is over have a
third of it, and run once where a call takes more than SLOW ms.
"""

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import instances
from peers import MODULES, PEERS, WHOLE_ONLY
from pictures import PICTURES
from tasks import FRACTIONS

SLOW = 2000
OURS, REFERENCE, *OTHERS = PEERS
CELL, AGAIN = (Path(__file__).with_name(name) for name in ("cell.py", "again.py"))


@dataclass(frozen=True)
class Row:
    """A line of the table: our time on a task over that of `over`, and the ratio to reach."""

    name: str
    instance: str
    task: str = "cut"
    over: str = REFERENCE
    target: float | None = None
    figure: str = "ms"
    others: bool = True

    def cells(self, solvers):
        """The pairs of solver and task that this row needs."""
        cells = [(OURS, self.task)] + ([(OURS, self.over)] if self.over not in PEERS else [])
        if self.task not in ("plain", "new w", "parts"):
            cells.append((REFERENCE, self.task))
        if self.task == "cut" and self.others:
            unable = WHOLE_ONLY if self.instance.endswith("real") else ()
            cells += [(solver, "cut") for solver in OTHERS if solver not in unable]
        return [cell for cell in cells if cell[0] in solvers]


def grid_rows():
    for graph, side, kinds in (
        ("2d4", 512, ("seg", "blur", "seeds")),
        ("2d4", 1024, ("seg", "blur", "seeds", "real")),
        ("2d8", 1024, ("seg", "blur")),
        ("3d6", 96, ("seg", "blur", "seeds")),
    ):
        for kind in kinds:
            name = f"{graph}-{side}-{kind}"
            yield Row(name, name, target=0.12 if name == "3d6-96-seeds" else 0.45)
            if name == "2d4-512-blur":
                # Reach: the best re-solves known, EIBFS's, over PyMaxflow's.
                for task, target in zip(FRACTIONS, (0.27, 0.29, 0.23)):
                    yield Row(f"  re-solve {task}", name, task, target=target)
            if name == "2d4-1024-seg":
                yield Row("  memory, MB", name, target=80, figure="mb", others=False)


SIDES = {"2d4": (256, 512, 1024, 2048, 4096), "3d6": (64, 96, 128, 192)}
ROWS = [
    *grid_rows(),
    *(Row(name, name, target=0.45) for name in PICTURES),
    Row("envelopes-64x256", "envelopes-64x256", target=0.10),
    Row("regions-300", "regions-300", over="plain", target=3.0),
    Row("  re-solve new w", "regions-300", "new w", over="cut", target=0.5),
    Row("regions-hard", "regions-hard", over="plain"),
    Row("count-2/N", "count-2/N", over="plain", target=1.5),
    Row("count", "count", over="plain", target=2.5),
    Row("count-3-lines", "count-3-lines", over="plain", target=4.0),
    Row("count-4-regions", "count-4-regions", over="plain"),
    Row("marginals-100-seg", "2d4-100-seg", "marginals", over="cut", target=4.0),
    Row("marginals-100-blur", "2d4-100-blur", "marginals", over="cut", target=4.0),
    Row("marginals-seg", "2d4-480x640-seg", "marginals", over="cut", target=4.0),
    Row("marginals-blur", "2d4-480x640-blur", "marginals", over="cut", target=4.0),
    *(
        Row(f"{graph}-{side}-{kind}", f"{graph}-{side}-{kind}", others=False)
        for graph, sides in SIDES.items()
        for side in sides
        if side not in (512, 1024, 96)  # above
        for kind in ("seg", "blur")
    ),
]
QUICK = ("2d4-512-blur", "envelopes-64x256", "2d4-100-blur", "2d4-256-seg")
GROWTH = 1.6


def run(file, solver, task, limit):
    """One cell in a fresh process; a word instead where there is no figure."""
    command = [sys.executable, CELL, file, solver, task]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        while True:
            try:
                out, errors = process.communicate(timeout=1)
                break
            except subprocess.TimeoutExpired:
                # Not RLIMIT_CPU: where it is set, Linux tells CPU time in steps of a tick.
                if cpu_seconds(process.pid) > limit:
                    process.kill()
                    return f"> {limit:.0f} s"
    if process.returncode and solver == OURS:
        raise RuntimeError(errors)
    return "failed" if process.returncode else json.loads(out)


def cpu_seconds(pid):
    user, system = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def measure(name, rows, solvers, options):
    """All cells of an instance: {cell: its figures, or a word}, nodes, faults."""
    cells = list(dict.fromkeys(cell for row in rows for cell in row.cells(solvers)))
    compared = {(row.over, row.task) for row in rows} | {(OURS, task) for _, task in cells}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "instance.npz"
        instance = make(name, options.data)
        instance.save(file)
        runs = fresh(file, cells, compared, options)
        figures, values = {}, {}
        for cell, found in runs.items():
            kept = [r for r in found if not isinstance(r, str)]
            values.setdefault(cell[1], []).extend(r["values"] for r in kept)
            figures[cell] = {
                "ms": statistics.median(statistics.median(r["times"]) for r in kept),
                "mb": statistics.median(r["mb"] for r in kept),
                "parts": [statistics.median(part) for part in zip(*(r["times"] for r in kept))],
            } if len(kept) == len(found) else found[-1]  # fmt: skip
        asked = [c for c in cells if c in compared and not isinstance(figures.get(c), str)]
        for cell, least in again(file, asked, options.rounds).items():
            figures.setdefault(cell, {})["again"] = least
    faults = [f"{name}, {task}" for task in values if differ(name, task, values[task])]
    return figures, instance.unary.size, faults


def make(name, data):
    return PICTURES[name].instance(data) if name in PICTURES else instances.make(name)


def fresh(file, cells, compared, options):
    """What each cell gave in its processes, round by round."""
    runs = {cell: [] for cell in cells}
    for _ in range(1 if options.again else options.rounds):
        for cell, found in runs.items():
            if found and isinstance(found[-1], str):
                continue
            if found and cell not in compared and max(found[-1]["times"]) > SLOW:
                continue
            share = 3 if cell[0] in OTHERS else 1
            found.append(run(file, *cell, options.limit / share))
    return runs


def again(file, cells, rounds):
    """The least milliseconds of each cell, called in turn in one process."""
    names = {f"{solver}:{task}": (solver, task) for solver, task in cells if task != "parts"}
    command = [sys.executable, AGAIN, file, str(rounds + 2), *names]
    found = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    return {names[name]: least for name, least in json.loads(found).items()}


def differ(name, task, runs):
    """Whether solvers or rounds disagree; a cut's last value is the energy of its labels."""
    if task == "cut":
        runs = [[value] for found in runs for value in found]
    room = 1e-9 if name.endswith("real") else 0.0
    return any(max(v) - min(v) > room * abs(v[0]) for v in zip(*runs))


def number(value):
    if value is None or isinstance(value, str):
        return value or "-"
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


WIDTHS = (21, 9, 10, 7, 8, 7, 10, 7, 5, 12, 8, 8, 8, 8, 9, 9)
HEAD = ["instance", "ours", REFERENCE, "ratio", "again", "ratio", "over", "target", "met", *OTHERS,
        "MB ours", "MB PyM.", "us/node"]  # fmt: skip


def line(fields):
    first, *rest = fields
    return f"{first:{WIDTHS[0]}s}" + "".join(f"{f:>{w}s}" for f, w in zip(rest, WIDTHS[1:]))


def ratio_of(ours, base):
    """Ours over the base, and whether it is only known to be below that: the base ran too long."""
    bound = isinstance(base, str) and base.startswith(">")
    base = 1e3 * float(base.split()[1]) if bound else base
    known = isinstance(ours, float) and isinstance(base, float)
    return (ours / base if known else None), bound


def told(row, figures, nodes):
    """A row's fields."""

    def of(cell, figure):
        found = figures.get(cell)
        return found.get(figure) if isinstance(found, dict) else found

    base = (REFERENCE, row.task) if row.over in PEERS else (OURS, row.over)
    ours, repeated = of((OURS, row.task), row.figure), of((OURS, row.task), "again")
    ratio, bound = ratio_of(ours, of(base, row.figure))
    judged, below = ratio_of(repeated, of(base, "again"))
    judged = ours if row.figure == "mb" else ratio if judged is None else judged
    met = "" if None in (judged, row.target) else "yes" if judged <= row.target else "no"
    met = "?" if (bound or below) and met == "no" else met
    others = [of((o, "cut"), "ms") if row.task == "cut" and row.others else None for o in OTHERS]
    memory = [of((s, row.task), "mb") for s in (OURS, REFERENCE)]
    memory = [m if isinstance(m, float) else None for m in memory]
    over = "our " + row.over if row.over not in PEERS else row.over
    each = f"{1e3 * repeated / nodes:.4f}" if isinstance(repeated, float) else "-"
    peer = of((REFERENCE, row.task), row.figure)
    shown = [number(ours), number(peer), "<" * bound + number(ratio)]
    if row.figure == "ms":
        shown += [number(repeated), "<" * below + number(ratio_of(repeated, of(base, "again"))[0])]
    else:
        shown += ["-", "-"]
    return [row.name, *shown, over, number(row.target), met, *map(number, others + memory), each]


def growth_lines(each):
    """How much the time a node grows from the smallest to the largest grid of a kind."""
    for graph, sides in SIDES.items():
        for kind in ("seg", "blur"):
            ends = [each.get(f"{graph}-{side}-{kind}") for side in (sides[0], sides[-1])]
            if None not in ends:
                ratio = ends[1] / ends[0]
                met = "yes" if ratio <= GROWTH else "no"
                name = f"growth {graph} {kind}"
                yield line(
                    [name, *[""] * 4, number(ratio), f"side {sides[0]}", number(GROWTH), met]
                )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--only", default="*", help="pattern of rows, or a part of their instances")
    parser.add_argument("--quick", action="store_true", help="a few small rows, 3 rounds, limit 9")
    parser.add_argument("--peers", nargs="*", default=[REFERENCE, *OTHERS], help="by default all")
    parser.add_argument("--data", type=Path, help="folder of data sets, for rows of real images")
    parser.add_argument("--again", action="store_true", help="one round of fresh processes")
    parser.add_argument("--parts", action="store_true", help="where our own time goes instead")
    parser.add_argument("--limit", type=float, help="CPU seconds for one run, by default 30")
    options = parser.parse_args()
    options.rounds = options.rounds or (3 if options.quick else 5)
    options.limit = options.limit or (9 if options.quick else 30)
    rows = [r for r in ROWS if fnmatch(r.name, options.only) or options.only in r.instance]
    rows = [r for r in rows if not options.quick or r.instance in QUICK]
    if options.data is None and any(r.instance in PICTURES for r in rows):
        rows = [r for r in rows if r.instance not in PICTURES]
        print("Rows of real images are left out: name the folder of data sets with --data DIR.")
    sys.exit(parts_table(rows, options) if options.parts else table(rows, options))


def told_load(options):
    load = ", ".join(f"{x:.1f}" for x in os.getloadavg())
    return f"{options.rounds} rounds; load {load} on {os.cpu_count()} processors"


def table(rows, options):
    """Measure and print; 1 if values differ."""
    asked = [OURS, *options.peers]
    solvers = [s for s in asked if importlib.util.find_spec(MODULES[s])]
    missing = [s for s in asked if s not in solvers]
    print(f"CPU ms, {told_load(options)}; not installed: {', '.join(missing) or 'none'}")
    print(line(HEAD))
    each, faults = {}, []
    for name in dict.fromkeys(row.instance for row in rows):
        chosen = [row for row in rows if row.instance == name]
        figures, nodes, found = measure(name, chosen, solvers, options)
        faults += found
        for row in chosen:
            print(line(told(row, figures, nodes)), flush=True)
            if isinstance(cut := figures.get((OURS, "cut")), dict):
                each[name] = cut["again"] / nodes
    for growth in growth_lines(each):
        print(growth)
    print(f"load at the end {os.getloadavg()[0]:.1f}; "
          + (f"VALUES DIFFER: {'; '.join(faults)}" if faults else "all values equal"))  # fmt: skip
    return bool(faults)


def parts_table(rows, options):
    """Where our time goes: whole, then making the energy, its solver, and searching apart."""
    print(f"CPU ms, {told_load(options)}")
    print(line(["instance", "whole", "energy", "solver", "search"]))
    for name in dict.fromkeys(row.instance for row in rows):
        asked = [Row(name, name, others=False), Row(name, name, "parts", others=False)]
        figures, *_ = measure(name, asked, [OURS], options)
        whole, apart = (figures[OURS, task] for task in ("cut", "parts"))
        ended = isinstance(whole, dict) and isinstance(apart, dict)
        parts = [whole["ms"], *apart["parts"]] if ended else [f"> {options.limit:g} s"]
        print(line([name, *map(number, parts)]), flush=True)
    return 0


if __name__ == "__main__":
    main()
