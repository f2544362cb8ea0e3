"""What `cutlearn predict` writes, one class a kind: masks, probabilities, areas, objects, overlays.

Each takes the answers as they come, and at the end says in a few words what it wrote.
"""

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cutlearn.app.answers import Answer
from cutlearn.app.tables import text_cell
from cutlearn.errors import InputError, counted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from cutlearn.report.objects import Object

AREAS = ("name", "label", "mask_pixels", "expected_pixels", "low", "high")
OBJECTS = (
    "name", "object", "label", "area", "x", "y", "left", "top", "right", "bottom",
    "mean_probability", "at_border",
)  # fmt: skip


class Product:
    """What is made of the answers."""

    def add(self, name: str, one: Answer) -> None:
        """Take the answer of an image."""
        raise NotImplementedError

    def finish(self) -> str:
        """Write what waits for all images; say what was made."""
        return ""


class Masks(Product):
    """A mask for each image: DIR/name.png."""

    def __init__(self, out: Path, object_value: int, values: tuple[int, ...]) -> None:
        self.out, self.object_value, self.values = out, object_value, values

    def add(self, name: str, one: Answer) -> None:
        """Write a mask; of several labels in colours that any viewer shows."""
        from cutlearn.images.write import write_labels, write_mask

        path = _made(self.out / f"{name}.png")
        if len(self.values) > 2:
            write_labels(path, one.mask, self.values)
        else:
            write_mask(path, one.mask, self.object_value)


class Probabilities(Product):
    """Maps of probability: DIR/probability/name.png, of several labels one each."""

    def __init__(self, out: Path) -> None:
        self.out = out / "probability"

    def add(self, name: str, one: Answer) -> None:
        """Write the probability of the object, or of several labels that of each."""
        from cutlearn.images.write import write_probability

        assert one.belief is not None
        labels = one.belief.shape[-1]
        parts = {"": 1} if labels == 2 else {f".{k}": k for k in range(labels)}
        for part, label in parts.items():
            write_probability(_made(self.out / f"{name}{part}.png"), one.belief[..., label])

    def finish(self) -> str:
        """Say where they are."""
        return ", probabilities in probability/"


class Areas(Product):
    """A table of areas with intervals."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.rows: list[tuple[Any, ...]] = []

    def add(self, name: str, one: Answer) -> None:
        """Take a row for each label above 0."""
        assert one.areas is not None
        self.rows += [
            (name, label, int((one.mask == label).sum()), *map(area_cell, one.areas[label]))
            for label in range(1, len(one.areas))
        ]

    def finish(self) -> str:
        """Write the table."""
        write_table(Path(self.path), AREAS, self.rows)
        return f", areas in {self.path}"


class Objects(Product):
    """Numbered objects: DIR/objects/name.png (16 bit), DIR/objects.csv, DIR/outlines/.

    `files` has the file of each image by its name: what a COCO file refers to.
    """

    def __init__(
        self, out: Path, names: Sequence[str], split: bool, least_area: int | None,
        outlines: str | None, files: Mapping[str, str],
    ) -> None:  # fmt: skip
        from cutlearn.report.objects import Coco

        self.files = files
        self.out, self.names, self.split, self.least_area = out, names, split, least_area
        self.kind, self.coco = outlines, Coco(names)
        self.rows: list[tuple[Any, ...]] = []
        self.counts: dict[str, int] = {}
        self.left_out: dict[str, int] = {}
        self.numbers: NDArray[np.int32] | None = None  # of the last image
        if outlines == "imagej":
            _roifile()

    def add(self, name: str, one: Answer) -> None:
        """Number the objects of an image."""
        from cutlearn.images.write import write_numbers
        from cutlearn.report.objects import find_objects

        found = find_objects(one.mask, one.belief, self.split, self.least_area)
        numbers, objects, self.left_out[name] = found
        self.counts[name], self.numbers = len(objects), numbers
        write_numbers(_made(self.out / "objects" / f"{name}.png"), numbers)
        self.rows += [self._row(name, part) for part in objects]
        if self.kind == "coco":
            self.coco.add(self.files[name], numbers, objects)
        elif self.kind is not None:
            self._outline(name, numbers, objects)

    def _row(self, name: str, part: "Object") -> tuple[Any, ...]:
        sure = "" if part.probability is None else f"{part.probability:.4f}"
        return (name, part.number, self.names[part.label], part.area, f"{part.x:.1f}",
                f"{part.y:.1f}", *part.box, sure, int(part.at_border))  # fmt: skip

    def _outline(self, name: str, numbers: Any, objects: "Sequence[Object]") -> None:
        from cutlearn.report.objects import geojson, imagej
        from cutlearn.store import atomic_write

        if self.kind == "geojson":
            said = json.dumps(geojson(numbers, objects, self.names))
            atomic_write(_made(self.out / "outlines" / f"{name}.geojson"), said.encode())
            return
        path = _made(self.out / "outlines" / f"{name}.zip")
        path.unlink(missing_ok=True)
        if objects:
            _roifile().roiwrite(path, [imagej(numbers, part) for part in objects])

    def to_json(self, name: str) -> dict[str, int]:
        """Return the counts of an image, as JSON can hold them."""
        return {"objects": self.counts[name], "left_out": self.left_out[name]}

    def finish(self) -> str:
        """Write the table; say how many objects there are."""
        from cutlearn.store import atomic_write

        write_table(self.out / "objects.csv", OBJECTS, self.rows)
        if self.kind == "coco":
            said = json.dumps(self.coco.to_plain())
            atomic_write(_made(self.out / "outlines" / "coco.json"), said.encode())
        lines = "" if self.kind is None else " and outlines/"
        count, left_out = (sum(part.values()) for part in (self.counts, self.left_out))
        said = f", {count} objects in objects.csv, objects/{lines}"
        if left_out:
            below = "smaller than --min-area"
            if self.least_area is None:
                below = "smaller than an eighth of the median object of their image"
            said += f" ({counted(left_out, 'fragment')} left out, {below})"
        return said


class Overlays(Product):
    """Images with the borders of what was found: DIR/overlay/name.png.

    With `objects`, which must be added to first, the borders are those of single objects.
    """

    def __init__(self, out: Path, objects: Objects | None = None) -> None:
        self.out, self.objects = out / "overlay", objects

    def add(self, name: str, one: Answer) -> None:
        """Draw an image with its mask."""
        from PIL import Image

        from cutlearn.report.displays import borders_over
        from cutlearn.store import atomic_write

        file = io.BytesIO()
        numbers = None if self.objects is None else self.objects.numbers
        picture = (255 * borders_over(one.image, one.mask, numbers) + 0.5).astype("uint8")
        Image.fromarray(picture).save(file, "PNG")
        atomic_write(_made(self.out / f"{name}.png"), file.getvalue())

    def finish(self) -> str:
        """Say where they are."""
        return ", overlays in overlay/"


def area_cell(pixels: float) -> str:
    """Return an area as a table has it; empty where there is no interval."""
    return "" if math.isnan(pixels) else f"{pixels:.1f}"


def write_table(path: Path, titles: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a CSV table whose first column is a name."""
    from cutlearn.store import atomic_write

    table = io.StringIO()
    named = ((text_cell(name), *rest) for name, *rest in rows)
    csv.writer(table, lineterminator="\n").writerows([titles, *named])
    atomic_write(path, table.getvalue().encode())


def _made(path: Path) -> Path:
    """The path, its folder made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _roifile() -> Any:
    try:
        import roifile
    except ImportError:
        raise InputError(
            "--outlines imagej: the package roifile, which writes ROI files, is not installed. "
            "Install it with `pip install cutlearn[imagej]`, or use --outlines geojson."
        ) from None
    return roifile
