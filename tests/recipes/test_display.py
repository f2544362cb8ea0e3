"""A display of one's own in the report that `cutlearn evaluate --report` writes."""

import numpy as np
from click.testing import CliRunner

from cutlearn.app.cli import main
from cutlearn.report.displays import new_axes
from cutlearn.report.page import Chart, charts, register_chart
from small_folders import make_folders


def draw_overlaps(subject):
    ax = new_axes((3.8, 3.8))
    ax.hist([image.iou for image in subject.figures.images], bins=np.linspace(0, 1, 11))
    ax.set(xlabel="overlap of an image", ylabel="images")
    return ax.figure


MINE = Chart(
    name="overlaps",
    words="How many images have which overlap.",
    draw=draw_overlaps,
    applies=lambda subject: len(subject.figures.images) > 2,
)


def test_a_display_from_outside_is_in_the_report(tmp_path, monkeypatch):
    monkeypatch.setattr(charts, "CHARTS", dict(charts.CHARTS))
    register_chart(MINE)
    images, masks = make_folders(tmp_path)
    model, page = str(tmp_path / "m"), tmp_path / "page.html"
    fast = ["--features", "linear", "--C", "10", "--tol", "0.05", "--jobs", "1"]
    assert CliRunner().invoke(main, ["fit", images, masks, "-o", model, *fast]).exit_code == 0
    done = CliRunner().invoke(main, ["evaluate", model, images, masks, "--report", str(page)])
    assert done.exit_code == 0, done.stderr
    assert MINE.words in page.read_text()
