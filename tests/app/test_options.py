"""Options that would change nothing are refused, and every other one of a command is consumed."""

import inspect
import shlex
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

import cutlearn as cl
from cutlearn.app.cli import main
from cutlearn.app.registry import COMMANDS
from cutlearn.images import pasture, write_mask
from small_folders import make_folders

LINEAR = "--features linear --C 10 --tol .05"


def run(text, **paths):
    return CliRunner().invoke(main, [word.format(**paths) for word in shlex.split(text)])


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    root = tmp_path_factory.mktemp("options")
    images, masks = make_folders(root)
    found = {"images": images, "masks": masks, "model": root / "two.model", "root": root,
             "image": sorted(Path(images).iterdir())[0], "mask": sorted(Path(masks).iterdir())[0],
             "three": root / "three.model"}  # fmt: skip
    done = run(f"fit {{images}} {{masks}} -o {{model}} {LINEAR} --jobs 1", **found)
    assert done.exit_code == 0, done.stderr
    worlds = [pasture(seed, (32, 32)) for seed in range(2)]
    several = cl.Segmenter(labels="unordered", features="linear", C=1.0, tol=0.5, n_jobs=1,
                           calibration=None)  # fmt: skip
    several.fit([w.image for w in worlds], [w.labels for w in worlds]).save(found["three"])
    return found


IDLE = [
    ("fit {images} {masks} -o {root}/a --spacing 1,1,1", "--spacing"),
    ("fit {images} {masks} -o {root}/a --empty-void", "--empty-void"),
    ("fit {images} {masks} -o {root}/a --features linear --budget fast", "--budget"),
    ("fit {images} {masks} -o {root}/a --model shape --budget fast", "--budget"),
    ("fit {images} {masks} -o {root}/a --model shape --C 3", "--C"),
    ("fit {images} {masks} -o {root}/a --model shape --features linear", "--features"),
    ("fit {image} {mask} -o {root}/a --features linear --mask-suffix _m", "--mask-suffix"),
    ("fit {image} {mask} -o {root}/a --features linear --pattern *.png", "--pattern"),
    ("fit {images} {masks} -o {root}/a --threshold 9 --object-value 255", "--object-value"),
    ("fit {images} {masks} -o {root}/a --threshold 9 --void-value 7", "--void-value"),
    ("fit {images} {masks} -o {root}/a --threshold 9 --colors 000000,ffffff", "--colors"),
    ("fit {images} {masks} -o {root}/a --colors 000000,ffffff --void-value 7", "--void-value"),
    ("fit {images} {masks} -o {root}/a --learner likelihood --loss count", "loss"),
    ("predict {model} {images} -o {root}/out --no-split", "--no-split"),
    ("predict {model} {images} -o {root}/out --min-area 3", "--min-area"),
    ("predict {model} {images} -o {root}/out --spacing 1,1,1", "--spacing"),
    ("predict {model} {image} -o {root}/out --pattern *.png", "--pattern"),
    ("predict {three} {images} -o {root}/out --object-value 7", "--object-value"),
    ("evaluate {model} {images} {masks} --spacing 1,1,1", "--spacing"),
    ("evaluate {model} {images} {masks} --threshold 9 --object-value 255", "--object-value"),
    ("rank {model} {image} --pattern *.png", "--pattern"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "name"), IDLE)
def test_an_option_without_effect_is_refused_before_any_work(text, name, paths):
    done = run(text, **paths)
    assert done.exit_code == 2, done.output
    assert name in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (paths["root"] / "out").exists()
    assert not list(paths["root"].glob("a*"))


def test_every_parameter_of_a_command_is_used():
    found = [
        one
        for command in COMMANDS.values()
        for one in getattr(command, "commands", {"": command}).values()
    ]
    for command in found:
        source = inspect.getsource(command.callback)
        body = source[source.index(") -> int:") :]
        taken = inspect.signature(command.callback).parameters
        for param in command.params:
            if param.expose_value and param.name in taken:
                assert param.name in body, (command.name, param.name)


def test_a_grey_value_of_the_object_in_coloured_masks_is_refused(tmp_path):
    for part in ("images", "masks"):
        (tmp_path / part).mkdir()
    colored = np.zeros((8, 8, 3), np.uint8)
    colored[2:5] = 255, 0, 0
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(tmp_path / "images" / "a.png")
    Image.fromarray(colored).save(tmp_path / "masks" / "a.png")
    done = run("fit {p}/images {p}/masks -o {p}/m --object-value 1", p=tmp_path)
    assert done.exit_code == 2
    assert "colour pictures" in done.stderr
    write_mask(tmp_path / "masks" / "a.png", (colored[..., 0] > 0).astype(np.uint8))
    done = run("fit {p}/images {p}/masks -o {p}/m --object-value 1", p=tmp_path)
    assert "colour pictures" not in done.stderr


@pytest.mark.parametrize("given", ["unannotated", "callback"])
def test_fit_refuses_an_argument_that_it_would_not_use(given):
    images, masks = [np.zeros((16, 16, 3))] * 2, [np.eye(16, dtype=np.uint8)] * 2
    said = {"unannotated": images, "callback": print}[given]
    models = [cl.BoltzmannSegmenter()]
    if given == "unannotated":
        models += [cl.Segmenter(features="linear"), cl.Segmenter(features=cl.Featurizer("trees"))]
    for model in models:
        with pytest.raises(cl.InputError, match=f"{given}: .*does not use it"):
            model.fit(images, masks, **{given: said})
