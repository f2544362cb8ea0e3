"""All results as one zip: masks, probabilities, areas, the report and the model."""

import io
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import IO, Any

from cutlearn.app.products import AREAS, area_rows, table_text
from cutlearn.app.web.models import Models
from cutlearn.app.web.tabs import AnswerHistory
from cutlearn.app.web.workspace import Workspace
from cutlearn.errors import InputError


class Exporter:
    """Makes zips, one at a time, and can be stopped.

    Parameters
    ----------
    workspace : Workspace
    models : Models
    """

    def __init__(self, workspace: Workspace, models: Models) -> None:
        self.workspace, self.models = workspace, models
        self.closed = False
        self._process: subprocess.Popen[str] | None = None

    def close(self) -> None:
        """Stop the export that is under way."""
        self.closed = True
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def make(self) -> IO[bytes]:
        """Return the zip as an open temporary file without a name, at its beginning.

        masks/NAME.png as they are on the disk; probability/NAME.tif, (labels, h, w) float32, and
        areas.csv for images with marks or a model; report.html and the model where there is one.
        """
        workspace, models = self.workspace, self.models
        if not workspace.done:
            raise InputError("There are no masks to export yet. Accept some first.")
        workspace.hidden.mkdir(parents=True, exist_ok=True)
        file = tempfile.TemporaryFile(dir=workspace.hidden)  # noqa: SIM115 - the caller closes it
        try:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=3) as archive:
                rows: list[tuple[Any, ...]] = []
                for number in workspace.done:
                    if self.closed:
                        raise InputError("The server ends.")
                    name, path = workspace.names[number], workspace.mask_path(number)
                    archive.write(path, f"masks/{name}{path.suffix}")
                    rows += _add_probabilities(archive, workspace, models, number)
                archive.writestr("areas.csv", table_text(AREAS, rows))
                if models.path is not None and models.estimator is not None:
                    archive.write(models.path, "model/learned.model")
                    self._report(archive, models.path)
            file.seek(0)
            return file
        except BaseException:
            file.close()
            raise

    def _report(self, archive: zipfile.ZipFile, model: Path) -> None:
        """Add the page of `cutlearn evaluate`, made by a process of its own, or its error."""
        with tempfile.TemporaryDirectory(dir=self.workspace.hidden) as folder:
            page = Path(folder) / "report.html"
            command = [
                sys.executable, "-m", "cutlearn", "evaluate", str(model),
                str(self.workspace.images), str(self.workspace.masks), "--report", str(page),
                "--quiet",
            ]  # fmt: skip
            with subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE, text=True, errors="replace",
            ) as self._process:  # fmt: skip
                _, error = self._process.communicate()
            if page.is_file():
                archive.write(page, "report.html")
            else:
                archive.writestr("no-report.txt", error)


def _add_probabilities(
    archive: zipfile.ZipFile, workspace: Workspace, models: Models, number: int
) -> list[tuple[Any, ...]]:
    """Add the probabilities of an image, as the page showed them; return its rows of areas."""
    import tifffile

    name, image, mask = workspace.names[number], workspace.image(number), workspace.mask(number)
    assert mask is not None
    shape = image.shape[0], image.shape[1]
    marks = workspace.drafts.read(name, "", shape, workspace.n_labels)
    session = models.session()
    session.set_image(image)
    try:
        answer = AnswerHistory(session, workspace.n_labels).answer(marks)
    except InputError:  # neither marks nor a model
        return []
    planes = answer.probability.transpose(2, 0, 1)
    buffer = io.BytesIO()
    tifffile.imwrite(buffer, planes, compression="zlib", photometric="minisblack")
    archive.writestr(f"probability/{name}.tif", buffer.getvalue())
    areas = (
        (value, *interval) for value, interval in map(answer.area, range(1, workspace.n_labels))
    )
    return area_rows(name, mask, areas)
