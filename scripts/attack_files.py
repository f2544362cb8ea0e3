"""Attack everything that is read: damaged files, small bombs, kills at random moments.

    python scripts/attack_files.py [--seed 0] [--mutations 5000] [--kills 50]

Under four minutes. Seeds come first, counts last; leaves with 1 if anything got through:
a damaged model or checkpoint that loads and answers differently, a bomb that takes memory, time or
screen or is told as a bug, a killed fit that resumes to other bits or leaves something behind.
Linux only: every command is a fork of this process under limits of memory and time.
"""

import argparse
import collections
import contextlib
import io
import os
import resource
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

TESTS = Path(__file__).parent.parent / "tests"
sys.path.insert(0, str(TESTS))

import cutlearn as cl  # noqa: E402
from cutlearn.app.cli import main  # noqa: E402
from cutlearn.features.featurizer import Featurizer  # noqa: E402
from cutlearn.features.trees import Recipe  # noqa: E402
from cutlearn.images import cells  # noqa: E402
from cutlearn.run.checkpoint import load_checkpoint, save_checkpoint  # noqa: E402
from hostile_images import bombs  # noqa: E402
from hostile_models import BOLTZMANN, SEGMENTER, changed, nested  # noqa: E402
from mutations import mutated  # noqa: E402
from small_folders import content, make_folders  # noqa: E402

ROOM, SECONDS, WORDS = 900 * 2**20, 30, 2500
WORLDS = [cells(seed, (32, 40)) for seed in range(4)]
IMAGES, MASKS = [w.image for w in WORLDS], [w.labels for w in WORLDS]
Counts = collections.Counter


BEGIN = time.monotonic()


def tell(text):
    """Write a line at once, with the seconds so far."""
    sys.stdout.write(f"{time.monotonic() - BEGIN:4.0f} s  {text}\n")
    sys.stdout.flush()


def forked(args, room=None, kill=None):
    """Run a command in a fork; give its code (negative: the signal), stdout and stderr."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            _become(args, room, out, errors)
        if kill is not None:
            time.sleep(kill)
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        said = []
        for file in (out, errors):
            file.seek(0)
            said.append(file.read().decode("utf-8", "replace"))
        return code, *said


def _become(args, room, out, errors):
    """Be the command; never returns."""
    code = 99
    try:
        for number, file in ((1, out), (2, errors)):
            os.dup2(file.fileno(), number)
        sys.stdout, sys.stderr = (io.TextIOWrapper(os.fdopen(k, "wb"), "utf-8") for k in (1, 2))
        if room is not None:
            used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + room,) * 2)
            resource.setrlimit(resource.RLIMIT_CPU, (SECONDS,) * 2)
        main([os.fspath(a) for a in args])
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def small_models(root):
    """Write a model of each estimator; give their paths."""
    few = Recipe(trees=2, rows=300, folds=2, min_leaf=5, leaves=4)
    made = {
        "boosted": cl.Segmenter(features=Featurizer(recipe=few), C=10.0, n_jobs=1),
        "linear": cl.Segmenter(features="linear", C=10.0, calibration="isotonic", n_jobs=1),
        "shapes": cl.BoltzmannSegmenter(shape=(8, 8), hidden=(8, 8), words=(8, 8), epochs=(5, 5),
                                        calibration=None, n_jobs=1),
    }  # fmt: skip
    for name, model in made.items():
        model.fit(IMAGES[:3], MASKS[:3], checkpoint=root / f"{name}.part").save(root / name)
    return {name: root / name for name in made}


def answer_of(path):
    model = cl.load(path)
    q = model.predict_proba(IMAGES[3:])[0]
    said = {k: v for k, v in model.get_params(deep=False).items() if k != "features"}
    return model.predict(IMAGES[3:])[0].tobytes(), q.tobytes(), said, model.card_


def state_of(path, kind):
    values, arrays = load_checkpoint(path, kind)
    return values, {name: (a.dtype, a.shape, a.tobytes()) for name, a in arrays.items()}


def attack_damage(root, models, seed, count):
    """Load `count` damaged models and checkpoints."""
    rng, found = np.random.default_rng(seed), Counts()
    kinds = {"features.safetensors": "features", "shape.safetensors": "shape"}
    files = [(path, answer_of) for path in models.values()]
    for path in sorted(root.glob("*.part/*.safetensors")):
        kind = kinds.get(path.name, "train")
        files.append((path, lambda p, kind=kind: state_of(p, kind)))
    right = [(path.read_bytes(), read, read(path)) for path, read in files]
    victim = root / "victim"
    for k in range(count):
        data, read, answer = right[k % len(right)]
        way, damaged = mutated(data, rng)
        victim.write_bytes(damaged)
        try:
            same = read(victim) == answer
            found["the same answer" if same else "ANOTHER ANSWER"] += 1
        except cl.InputError as error:
            same = len(str(error)) < WORDS and "\x1b" not in str(error)
            found["refused" if same else "A LONG MESSAGE"] += 1
        except Exception as error:
            same = False
            found["A BARE ERROR"] += 1
            tell(f"  {error!r:.200}")
        if not same:
            tell(f"  number {k} ({way}) got through")
    tell(f"damaged files, seed {seed}: {count} of {len(right)} files: {dict(found)}")
    return found


def bomb_commands(root, models):
    """Yield the name of a bomb and the command that reads it."""
    images, masks = make_folders(root / "plain", 2)
    for kind, lies in (("boosted", SEGMENTER), ("shapes", BOLTZMANN)):
        for k, (name, lie) in enumerate(lies.items()):
            path = changed(models[kind], root / f"{kind}{k}", lie)
            command = ["show", path] if k % 2 else ["predict", path, images, "-o", root / "out"]
            yield f"{kind}: {name}", command
    for side in (16_384, 10**9, -1, "x"):
        path = changed(models["linear"], root / f"side{side}", min_side(side))
        yield f"min_side {side}", ["predict", path, images, "-o", root / "out"]
    for k, (name, data) in enumerate(bombs().items()):
        folder = root / f"bomb{k}"
        folder.mkdir()
        (folder / "a.png").write_bytes(data)
        yield name, ["predict", models["linear"], folder, "-o", root / "out"]
    settings = ["--features", "linear", "--C", "10", "--jobs", "1"]
    for k, lie in enumerate(checkpoint_lies()):
        model = root / f"checkpoint{k}"
        (root / f"checkpoint{k}.part").mkdir()
        lie(root / f"checkpoint{k}.part" / "features.safetensors")
        yield f"checkpoint {k}", ["fit", images, masks, "-o", model, *settings]


def min_side(side):
    def change(header, arrays):
        header["card"]["min_side"] = side
        if "min_side" in header["parameters"]:
            header["parameters"]["min_side"] = side

    return change


def checkpoint_lies():
    long = "\x1b[2J" * 100_000
    yield lambda path: path.write_bytes(b"")
    yield lambda path: path.write_bytes(bytes(10**6))
    yield lambda path: save_checkpoint(path, long, {}, {})
    yield lambda path: save_checkpoint(path, "features", {"mark": long}, {})
    yield lambda path: save_checkpoint(path, "features", {"mark": nested(400)}, {})


# What may pass: images whose bomb the decoder never reaches.
HARMLESS = ("tiff strip of 8 bits", "png pixels")


def attack_bombs(root, models):
    """Read every bomb by the command line, under limits."""
    found = Counts()
    for name, args in bomb_commands(root, models):
        code, out, errors = forked(args, ROOM)
        lines = [line for line in errors.splitlines() if line.startswith("cutlearn: ")]
        plain = "\x1b" not in out + errors and len(out + errors) < WORDS
        good = code == 2 and len(lines) == 1 and "bug of ours" not in errors
        good |= code == 0 and name in HARMLESS
        found[f"exit {code}"] += 1
        if not (good and plain):
            found["GOT THROUGH"] += 1
            tell(f"  {name}: exit {code}, {len(out + errors)} characters, {errors[-300:]!r}")
    tell(f"bombs under {ROOM >> 20} MB and {SECONDS} s: {dict(found)}")
    return found


def attack_kills(root, seed, count):
    """Kill a fit at a random moment, go on, and compare with one that was left alone."""
    rng, found = np.random.default_rng(seed), Counts()
    images, masks = make_folders(root / "killed", 2, (32, 32))
    base = ["fit", images, masks, "--features", "linear", "--jobs", "1", "--C", "10", "-o"]
    for learner in ("bundle", "logistic"):
        whole, args = root / f"whole.{learner}", [*base, "{}", "--learner", learner]
        begin = time.monotonic()
        assert forked(placed(args, whole))[0] == 0
        seconds, wanted = time.monotonic() - begin, content(whole)
        for k in range(count):
            if found[f"killed {learner}"] == -(-count // 2):
                break
            folder = root / f"{learner}{k}"
            folder.mkdir()
            model = folder / "m"
            code, _, _ = forked(placed(args, model), kill=rng.uniform(0, seconds))
            found[f"killed {learner}" if code == -9 else "done before"] += 1
            found["a file half written"] += any(folder.rglob(".*.tmp"))
            found["a run to go on with"] += any(folder.glob("m.part/*.safetensors"))
            code, _, errors = forked(placed(args, model))
            same = code == 0 and content(model) == wanted
            alone = [p.name for p in folder.iterdir()] == ["m"]
            if not (same and alone):
                found["OTHER BITS" if not same else "SOMETHING LEFT"] += 1
                tell(f"  {learner} {k}: exit {code}, {list(folder.iterdir())}, {errors[-300:]!r}")
    tell(f"kills, seed {seed}: {dict(found)}")
    return found


def placed(args, model):
    return [model if a == "{}" else a for a in args]


def attack():
    """Run all attacks; gives the exit code."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--seed", type=int, default=0)
    asked.add_argument("--mutations", type=int, default=5000)
    asked.add_argument("--kills", type=int, default=50)
    given = asked.parse_args()
    tell(f"seed {given.seed}, {given.mutations} damaged files, {given.kills} kills")
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        models = small_models(root)
        found = attack_damage(root, models, given.seed, given.mutations)
        found += attack_bombs(root, models)
        found += attack_kills(root, given.seed + 1, given.kills)
    through = sum(number for kind, number in found.items() if kind.isupper())
    tell(f"{through} got through")
    return 1 if through else 0


if __name__ == "__main__":
    sys.exit(attack())
