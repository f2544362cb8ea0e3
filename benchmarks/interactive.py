"""One image and a person: our session beside OpenCV's grabCut, by boxes, by strokes, in seconds.

    python benchmarks/interactive.py --data DIR [--sets grabcut bsds_objects] [--strokes] [--speed]

Of every image with a box: wrong pixels in % of the image and of the box, IoU of the object, CPU
seconds. With --strokes a robot marks the middle of the largest error until IoU 0.95 is reached.
Void pixels (255) count nowhere. Both are measured in one run, image by image in turn. The peer
comes with `pip install cutlearn[bench]`.
"""

import argparse
import contextlib
import itertools
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from simulated_user import drawn_box, next_stroke

import cutlearn as cl
from cutlearn.images import read_image, read_values

GOALS, MOST_STROKES = (0.90, 0.95), 12
# Boxes of sets that have none: drawn with this room around the object.
ROOM = 0.05


class Ours:
    """A session."""

    def __init__(self, image):
        self.session = cl.Session()
        self.session.set_image(image)

    def segment(self, box, seeds=None):
        return self.session.segment(box=box, seeds=seeds).labels


class Peer:
    """OpenCV's grabCut, five rounds from a rectangle, five more after every stroke."""

    def __init__(self, image):
        import cv2

        colors = image if image.ndim == 3 else np.repeat(image[..., None], 3, axis=2)
        self.image = np.ascontiguousarray((255 * colors + 0.5).astype(np.uint8)[..., ::-1])
        self.cv2, self.mask = cv2, None
        self.models = [np.zeros((1, 65)) for _ in range(2)]
        cv2.setRNGSeed(0)

    def segment(self, box, seeds=None):
        cv2 = self.cv2
        if self.mask is None:
            self.mask = np.zeros(self.image.shape[:2], np.uint8)
            top, left, bottom, right = box
            rectangle = (left, top, right - left, bottom - top)
            mode = cv2.GC_INIT_WITH_RECT
            if rectangle[2:] == self.mask.shape[::-1]:
                self.mask[:] = cv2.GC_PR_FGD  # no background at all: it refuses to begin
                return np.ones(self.mask.shape, np.uint8)
        else:
            rectangle, mode = None, cv2.GC_INIT_WITH_MASK
            self.mask[seeds == 1], self.mask[seeds == 0] = cv2.GC_FGD, cv2.GC_BGD
        with contextlib.suppress(cv2.error):  # raised where a label has no pixel
            cv2.grabCut(self.image, self.mask, rectangle, *self.models, 5, mode)
        return (self.mask & 1).astype(np.uint8)


def cases(folder: Path) -> Iterator[tuple[str, np.ndarray, np.ndarray, tuple]]:
    """Name, image, truth and box of every image of a set."""
    given = folder / "boxes.json"
    boxes = json.loads(given.read_text()) if given.exists() else {}
    for path in sorted((folder / "images").iterdir()):
        truth = read_values(folder / "masks" / f"{path.stem}.png").astype(np.uint8)
        found = boxes.get(path.stem, boxes.get(path.name))
        if found:
            x0, y0, x1, y1 = found["box"]
            box = (y0, x0, y1, x1)
        else:
            box = drawn_box(truth, ROOM)
        yield path.stem, read_image(path), truth, box


def iou(truth: np.ndarray, labels: np.ndarray) -> float:
    """IoU of label 1; void pixels count nowhere."""
    known = truth != 255
    one, other = (truth == 1) & known, (labels == 1) & known
    return float((one & other).sum() / max(1, (one | other).sum()))


def by_box(name: str, image, truth, box, make: Callable) -> dict:
    begin = time.process_time()
    labels = make(image).segment(box)
    seconds = time.process_time() - begin
    known = truth != 255
    wrong = (labels != truth) & known
    inside = np.zeros(truth.shape, bool)
    inside[box[0] : box[2], box[1] : box[3]] = True
    return {
        "name": name,
        "image": 100 * wrong.sum() / known.sum(),
        "box": 100 * (wrong & inside).sum() / (known & inside).sum(),
        "iou": 100 * iou(truth, labels),
        "seconds": seconds,
    }


def by_strokes(image, truth, box, make: Callable) -> dict:
    """Strokes until each goal, MOST_STROKES if it is never reached, and seconds of a stroke."""
    person = make(image)
    labels, seeds = person.segment(box), np.full(truth.shape, -1, np.int16)
    reached, spent = {}, []
    for strokes in range(MOST_STROKES + 1):
        now = iou(truth, labels)
        reached |= {goal: strokes for goal in GOALS if now >= goal and goal not in reached}
        if len(reached) == len(GOALS) or strokes == MOST_STROKES:
            break
        seeds = next_stroke(truth, labels, seeds)
        begin = time.process_time()
        labels = person.segment(box, seeds)
        spent.append(time.process_time() - begin)
    return {
        **{f"to {goal:.2f}": reached.get(goal, MOST_STROKES) for goal in GOALS},
        "stroke seconds": float(np.median(spent)) if spent else np.nan,
    }


def table(rows: dict[str, list[dict]]) -> None:
    """Print means (and spreads: the bootstrap deviation of the mean over images)."""
    rng = np.random.default_rng(0)
    for who, found in rows.items():
        parts = []
        for key in found[0]:
            if key == "name":
                continue
            values = np.array([row[key] for row in found])
            values = values[np.isfinite(values)]
            draws = values[rng.integers(0, len(values), (1000, len(values)))].mean(axis=1)
            parts.append(f"{key} {values.mean():.2f} +-{draws.std():.2f}")
        print(f"  {who:8}", ", ".join(parts), f"({len(found)} images)")


def speed() -> None:
    """Seconds of the first mask, a stroke and the probabilities at two sizes."""
    for h, w in ((480, 640), (1500, 2000)):
        y, x = np.mgrid[:h, :w] / h
        rng = np.random.default_rng(0)
        inside = (y - 0.5) ** 2 + (x - 0.65) ** 2 < 0.09
        image = 0.5 + 0.25 * np.sin(9 * x + 7 * y)[..., None] * [1, 0.5, 0.2]
        image[inside] = image[inside][:, ::-1] * 0.8
        image = np.clip(image + 0.05 * rng.normal(size=image.shape), 0, 1).astype(np.float32)
        box = (int(0.15 * h), int(0.3 * h), int(0.85 * h), int(1.0 * h))
        took = {"set_image": [], "first": [], "stroke": [], "probability": []}
        for _ in range(3):
            session, seeds = cl.Session(), np.full((h, w), -1, np.int16)
            took["set_image"].append(timed(session.set_image, image))
            took["first"].append(timed(session.segment, box))
            for k in range(4):
                seeds[h // 2 - 5 : h // 2 + 5, (5 + k) * h // 10 :][:, :10] = k % 2
                took["stroke"].append(timed(session.segment, box, seeds))
            took["probability"].append(timed(getattr, session.answer, "probability"))
        said = ", ".join(f"{key} {1000 * np.median(v):.0f} ms" for key, v in took.items())
        print(f"  {w} x {h}: {said}")


def timed(call: Callable, *given) -> float:
    begin = time.process_time()
    call(*given)
    return time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", nargs="*", default=["grabcut", "bsds_objects", "coopcut16"])
    parser.add_argument("--strokes", action="store_true")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--ours", action="store_true", help="Leave the peer out.")
    parser.add_argument("--every", type=int, default=1, help="Only every so many-th image.")
    parser.add_argument("--each", action="store_true", help="Tell every image.")
    options = parser.parse_args()
    who = {"ours": Ours} if options.ours else {"ours": Ours, "OpenCV": Peer}
    if options.speed:
        speed()
    for name in options.sets:
        boxes, strokes = {k: [] for k in who}, {k: [] for k in who}
        for case in itertools.islice(cases(options.data / name), 0, None, options.every):
            for key, make in who.items():
                boxes[key].append(by_box(*case, make))
                if options.strokes:
                    strokes[key].append(by_strokes(*case[1:], make))
            if options.each:
                print(case[0], *(f"{boxes[k][-1]['iou']:.1f}" for k in who), flush=True)
        print(f"{name}, by a box")
        table(boxes)
        if options.strokes:
            print(f"{name}, strokes after the box")
            table(strokes)


if __name__ == "__main__":
    main()
