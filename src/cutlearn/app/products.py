"""The files of `cutlearn predict`, one class per kind: masks, probabilities, areas, objects.

Each takes the answers one by one, and returns a few words about its files at the end.
"""

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cutlearn.app.answers import Prediction
from cutlearn.errors import InputError, clean, plural

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from cutlearn.report.objects import Object

AREAS = ("name", "label", "mask_pixels", "expected_pixels", "low", "high")
# How a cell begins that a spreadsheet takes for a formula; the apostrophe is the mark itself.
RUN = ("=", "+", "-", "@", "'")
OBJECTS = (
    "name", "object", "label", "area", "x", "y", "left", "top", "right", "bottom",
    "mean_probability", "at_border",
)  # fmt: skip


class Product:
    """Files that are made of the answers."""

    def add(self, name: str, one: Prediction) -> None:
        """Add the answer of an image."""
        raise NotImplementedError

    def finish(self) -> str:
        """Write what needs all images; return a few words about the files."""
        return ""


class MaskFiles(Product):
    """A mask for each image: DIR/name.png; for each volume DIR/name.tif or NIfTI.

    `sources` has the files of volumes by their names; None for images.
    """

    def __init__(
        self, out: Path, object_value: int, values: tuple[int, ...],
        sources: Mapping[str, Path] | None = None,
    ) -> None:  # fmt: skip
        self.out, self.object_value, self.values, self.sources = out, object_value, values, sources

    def add(self, name: str, one: Prediction) -> None:
        """Write a mask; several labels of an image have colours that any viewer shows."""
        import numpy as np

        from cutlearn.images.write import write_labels, write_mask

        path = self.out / f"{name}.png"
        if self.sources is not None:
            values = (0, self.object_value) if len(self.values) == 2 else self.values
            _write_volume(self.out, name, np.array(values, np.uint8)[one.mask], self.sources[name])
        elif len(self.values) > 2:
            write_labels(_made(path), one.mask, self.values)
        else:
            write_mask(_made(path), one.mask, self.object_value)


class ProbabilityFiles(Product):
    """Maps of probability, one for the object or one for each of several labels.

    Of images DIR/probability/name.png (16 bit); of volumes, whose files are `sources`, TIFF
    (16 bit) or NIfTI (floats).
    """

    def __init__(self, out: Path, sources: Mapping[str, Path] | None = None) -> None:
        self.out, self.sources = out / "probability", sources

    def add(self, name: str, one: Prediction) -> None:
        """Write the probability of the object, or of several labels that of each."""
        import numpy as np

        from cutlearn.images.reader import is_nifti
        from cutlearn.images.write import write_probability

        assert one.belief is not None
        labels = one.belief.shape[-1]
        parts = {name: 1} if labels == 2 else {f"{name}.{k}": k for k in range(labels)}
        for part, label in parts.items():
            q = one.belief[..., label]
            if self.sources is None:
                write_probability(_made(self.out / f"{part}.png"), q)
                continue
            source = self.sources[name]
            voxels = q if is_nifti(source) else np.rint(q * 65535).astype(np.uint16)
            _write_volume(self.out, part, voxels, source)

    def finish(self) -> str:
        """Return where they are."""
        return ", probabilities in probability/"


class Areas(Product):
    """A table of areas with intervals."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.rows: list[tuple[Any, ...]] = []

    def add(self, name: str, one: Prediction) -> None:
        """Add a row for each label above 0."""
        assert one.areas is not None
        self.rows += area_rows(name, one.mask, one.areas[1:])

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

    def add(self, name: str, one: Prediction) -> None:
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
        """Write the table; return how many objects there are."""
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
            said += f" ({plural(left_out, 'fragment')} left out, {below})"
        return said


class Overlays(Product):
    """Images with the borders of what was found: DIR/overlay/name.png.

    With `objects`, which must be added to first, the borders are those of single objects.
    """

    def __init__(self, out: Path, objects: Objects | None = None) -> None:
        self.out, self.objects = out / "overlay", objects

    def add(self, name: str, one: Prediction) -> None:
        """Draw an image with its mask."""
        from cutlearn.report.displays import borders_over

        numbers = None if self.objects is None else self.objects.numbers
        picture = borders_over(one.image, one.mask, numbers)
        write_picture(_made(self.out / f"{name}.png"), picture)

    def finish(self) -> str:
        """Return where they are."""
        return ", overlays in overlay/"


def area_rows(
    name: str, mask: "NDArray[Any]", areas: Iterable[Iterable[float]]
) -> list[tuple[Any, ...]]:
    """Return the rows of an image in the table `AREAS`: a label's area and interval per row.

    `areas` begins with label 1; an interval that is nan becomes empty cells.
    """
    return [
        (name, label, int((mask == label).sum()),
         *("" if math.isnan(pixels) else f"{pixels:.1f}" for pixels in area))
        for label, area in enumerate(areas, 1)
    ]  # fmt: skip


def write_table(path: Path, titles: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a CSV table whose first column is a name."""
    from cutlearn.store import atomic_write

    atomic_write(path, table_text(titles, rows).encode())


def table_text(titles: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a CSV table whose first column is a name."""
    table = io.StringIO()
    named = ((text_cell(name), *rest) for name, *rest in rows)
    csv.writer(table, lineterminator="\n").writerows([titles, *named])
    return table.getvalue()


def text_cell(text: str) -> str:
    r"""Return a text, such as a file name, as a cell of a CSV table that no program evaluates.

    A spreadsheet would run a cell that begins with =, +, - or @: such a cell gets an apostrophe in
    front. Bytes that are no text, and control characters, become \x1b and the like; a backslash is
    doubled, so that nothing is lost.

    Examples
    --------
    >>> text_cell("=1+1"), text_cell("cell 7")
    ("'=1+1", 'cell 7')
    """
    cell = clean(text.replace("\\", "\\\\"), joined=False)
    return f"'{cell}" if cell.startswith(RUN) else cell


def write_picture(path: Path, picture: "NDArray[np.float64]") -> None:
    """Write colours in [0, 1], (h, w, 3), as a PNG."""
    from PIL import Image

    from cutlearn.store import atomic_write

    file = io.BytesIO()
    Image.fromarray((255 * picture + 0.5).astype("uint8")).save(file, "PNG")
    atomic_write(path, file.getvalue())


def _made(path: Path) -> Path:
    """Return the path after its folder is made."""
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


def _write_volume(out: Path, name: str, voxels: Any, source: Path) -> None:
    from cutlearn.images.write import volume_name, write_voxels

    write_voxels(_made(out / volume_name(name, source)), voxels, source)
