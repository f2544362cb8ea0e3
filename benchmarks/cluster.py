"""What a cluster costs: measured on two workers of this machine, then reckoned for many.

    python benchmarks/cluster.py measure                 bytes and processor seconds of a task
    python benchmarks/cluster.py simulate PICTURE.png    a round of training, 1 to 1,000 workers
    python benchmarks/cluster.py compare IMAGES MASKS    one worker against two: a training on
                                                         forty images at a smaller side of 300
    python benchmarks/cluster.py sent [SIDE]             bytes that leave the driver of a fit, from
                                                         files and from lists; one worker and two

The simulation is of one round: the driver sends a task for each batch (BATCHES a worker), the
scheduler handles one task after the other, workers ask their images' oracles, and the driver takes
the planes in, one after the other, before the master's QP. Workers are as fast as each other but
for a share of slow ones.
"""

import argparse
import heapq
import json
import math
import os
import time

import numpy as np

BATCHES = 2
# Seconds, measured on a busy machine of two cores: of an oracle on a 300 x 400 image with 8
# neighbours, of the driver and of the scheduler for a task (3.6 ms together, halved here), of the
# driver for a plane of 20 weights. Assumed: of the QP, and of a message's way.
ORACLE, DRIVER, SCHEDULER, PLANE, QP, WAY = 0.065, 1.8e-3, 1.8e-3, 6.4e-6, 0.05, 2e-3
# Assumed: the share of workers that are slow, and how slow.
SLOW, HOW_SLOW = 0.02, 3.0


def round_seconds(images, workers, rng, batches=BATCHES):
    """Seconds of a round, and what the driver, the scheduler and a worker spend of them."""
    slow = np.where(rng.random(workers) < SLOW, HOW_SLOW, 1.0)
    count = min(images, batches * workers)
    each = images / count
    sent = handled = 0.0
    free = [(0.0, k) for k in range(workers)]
    done = []
    for _ in range(count):
        sent += DRIVER
        handled = max(handled, sent + WAY) + SCHEDULER
        begin, k = heapq.heappop(free)
        end = max(begin, handled + WAY) + each * ORACLE * slow[k]
        heapq.heappush(free, (end, k))
        done.append(end + WAY)
    taken = 0.0
    for end in sorted(done):
        taken = max(taken, end) + SCHEDULER + DRIVER + each * PLANE
    spent = {
        "oracles": images * ORACLE / workers,
        "tasks": count * (SCHEDULER + DRIVER),
        "planes": images * PLANE,
        "master": QP,
    }
    return taken + QP, spent


def measure():
    """Count bytes and processor seconds of tasks that do nothing, on two workers."""
    from cutlearn.run.executor import executor_of

    place = executor_of("local:2")
    try:
        executor = place
        executor.map(math.sqrt, range(50))
        sent, begin, wall = place.sent + place.received, time.process_time(), time.monotonic()
        executor.map(math.sqrt, range(1000))
        # The scheduler of local:N is a thread of this process.
        both = (time.process_time() - begin) / 1000
        moved = (place.sent + place.received - sent) / 1000
        seconds = (time.monotonic() - wall) / 1000
        told = {"driver and scheduler, ms a task": 1e3 * both, "wall, ms a task": 1e3 * seconds}
        print(json.dumps(told | {"bytes a task": moved}))
    finally:
        place.close()


def compare(images, masks, count=40, side=300):
    """Train on one worker and on two; processor seconds of the workers, and of driver and rest."""
    import cutlearn as cl
    from cutlearn.features.featurizer import Featurizer
    from cutlearn.model.size import at_side, mask_at_side
    from cutlearn.run.executor import executor_of

    given, truth = cl.images.read_folder(images, masks).lazy()
    samples = [at_side(cl.Sample(image), side) for image in given[:count]]
    labels = [mask_at_side(mask, side) for mask in truth[:count]]
    featurizer = Featurizer("linear")
    nodes = featurizer.fit_transform(samples, labels)
    problems = [featurizer.problem(*pair) for pair in zip(samples, nodes)]
    bits, rows = set(), {}
    for workers in (1, 2):
        place = executor_of(f"local:{workers}")
        try:
            before, own = place.client.run(time.process_time), time.process_time()
            wall = time.monotonic()
            result = cl.train(problems, labels, C=100.0, tol=0.02, n_jobs=place)
            wall = time.monotonic() - wall
            after, own = place.client.run(time.process_time), time.process_time() - own
        finally:
            place.close()
        bits.add(result.w.tobytes())
        each = [after[name] - before[name] for name in after]
        rows[workers] = {
            "workers": each, "sum": sum(each), "driver and scheduler": own, "wall": wall,
            "steps": len(result.steps), "asked": sum(s.calls for s in result.steps),
        }  # fmt: skip
    rows |= {"ratio": rows[1]["sum"] / rows[2]["sum"], "same bits": len(bits) == 1}
    rows["load"] = os.getloadavg()
    print(json.dumps(rows | {"pixels": sum(y.size for y in labels)}, indent=1))


def sent(side=200, count=8):
    """Fit on images that workers read themselves, and on lists; bytes before the first step."""
    import tempfile
    from pathlib import Path

    from PIL import Image

    import cutlearn as cl
    from cutlearn.images import cells
    from cutlearn.run.executor import executor_of

    bits, rows = set(), []
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        for k in range(count):
            world = cells(k, (int(side), int(side) * 3 // 2))
            for kind, values in (("images", world.image), ("masks", world.labels)):
                (root / kind).mkdir(exist_ok=True)
                grey = np.clip(255 * values, 0, 255).astype(np.uint8)
                Image.fromarray(grey).save(root / kind / f"{k}.png")
        files = cl.images.read_folder(root / "images", root / "masks").lazy()
        for workers, what in ((2, "files"), (2, "lists"), (1, "files"), (1, "lists")):
            place = executor_of(f"local:{workers}")
            try:
                place.client.run(_imported)
                before, wall = place.client.run(time.process_time), time.monotonic()
                time.sleep(3)
                after = place.client.run(time.process_time)
                idle = sum(after[n] - before[n] for n in after) / (time.monotonic() - wall)
                first, own, wall = [], time.process_time(), time.monotonic()
                model = cl.Segmenter(features="linear", C=10.0, tol=0.02, calibration=None,
                                     n_jobs=place)  # fmt: skip
                given = files if what == "files" else [list(part) for part in files]
                model.fit(*given, checkpoint=root / f"{workers}{what}",
                          callback=lambda step, place=place, first=first:
                          first.append((place.sent, place.received)))  # fmt: skip
                last = place.client.run(time.process_time)
                wall = time.monotonic() - wall
            finally:
                place.close()
            bits.add(model.w_.tobytes())
            steps = np.diff(np.array(first), axis=0)
            rows.append({
                "workers": workers, "from": what, "sent before": first[0][0],
                "received before": first[0][1], "sent a step": float(np.median(steps[:, 0])),
                "CPU of workers": sum(last[n] - after[n] for n in last), "idle CPU a second": idle,
                "CPU of driver and scheduler": time.process_time() - own, "wall": wall,
            })  # fmt: skip
            print(json.dumps(rows[-1]), flush=True)
    print("same bits:", len(bits) == 1)


def _imported():
    """Import everything on a worker."""
    from cutlearn.images import cells
    from cutlearn.model.segmenter import Segmenter

    worlds = [cells(k, (32, 40)) for k in range(2)]
    model = Segmenter(features="linear", C=1.0, tol=0.5, n_jobs=1)
    model.fit([w.image for w in worlds], [w.labels for w in worlds])


def simulate(picture):
    """Draw the seconds of a round against workers, for a million images."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    counts = [1, 3, 10, 30, 100, 300, 1000]
    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    for images, color in ((10_000, "tab:orange"), (1_000_000, "tab:blue")):
        told = [round_seconds(images, n, np.random.default_rng(0)) for n in counts]
        axes.plot(counts, [t for t, _ in told], "o-", color=color, label=f"{images:,} images")
        axes.plot(counts, [images * ORACLE / n for n in counts], ":", color=color)
        for n, (t, spent) in zip(counts, told):
            print(images, n, round(t, 2), {k: round(v, 2) for k, v in spent.items()})
    axes.set(xscale="log", yscale="log", xlabel="workers", ylabel="seconds of a round")
    axes.legend(title="dotted: the oracles alone")
    figure.savefig(picture, dpi=80)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["measure", "simulate", "compare", "sent"])
    parser.add_argument("files", nargs="*")
    given = parser.parse_args()
    works = {"measure": measure, "simulate": simulate, "compare": compare, "sent": sent}
    works[given.what](*given.files)
