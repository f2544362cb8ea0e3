"""Checkpoints of very small networks of MobileSAM's kind, with random weights."""

import io
import pickle
import zipfile

import numpy as np

DIMS, DEPTHS, HEADS, WINDOWS = (4, 6, 8, 12), (1, 1, 2, 1), (1, 2, 2, 3), (7, 3, 2, 3)


def tiny_tensors(seed=0, dims=DIMS, depths=DEPTHS, heads=HEADS, windows=WINDOWS, neck=5):
    """Named tensors as those of a checkpoint, with the prefix of the encoder."""
    rng = np.random.default_rng(seed)
    made = {}

    def add(name, *shape, scale=None):
        scale = scale or 1 / np.sqrt(np.prod(shape[1:]) if len(shape) > 1 else 4)
        made[f"image_encoder.{name}"] = (scale * rng.normal(size=shape)).astype(np.float32)

    def convolution(name, out, into, side):
        add(f"{name}.c.weight", out, into, side, side)
        for part in ("weight", "bias", "running_mean"):
            add(f"{name}.bn.{part}", out)
        made[f"image_encoder.{name}.bn.running_var"] = rng.uniform(0.5, 2, out).astype(np.float32)
        made[f"image_encoder.{name}.bn.num_batches_tracked"] = np.array(7)

    def wide(name, into, inner, out):
        convolution(f"{name}.conv1", inner, into, 1)
        convolution(f"{name}.conv2", inner, 1, 3)
        convolution(f"{name}.conv3", out, inner, 1)

    def linear(name, out, into):
        add(f"{name}.weight", out, into)
        add(f"{name}.bias", out)

    convolution("patch_embed.seq.0", dims[0] // 2, 3, 3)
    convolution("patch_embed.seq.2", dims[0], dims[0] // 2, 3)
    for stage, dim in enumerate(dims):
        for k in range(depths[stage]):
            name = f"layers.{stage}.blocks.{k}"
            if stage == 0:
                wide(name, dim, 4 * dim, dim)
                continue
            add(f"{name}.attn.attention_biases", heads[stage], windows[stage] ** 2, scale=1)
            for part in ("attn.norm", "mlp.norm"):
                add(f"{name}.{part}.weight", dim)
                add(f"{name}.{part}.bias", dim)
            linear(f"{name}.attn.qkv", 3 * dim, dim)
            linear(f"{name}.attn.proj", dim, dim)
            linear(f"{name}.mlp.fc1", 4 * dim, dim)
            linear(f"{name}.mlp.fc2", dim, 4 * dim)
            convolution(f"{name}.local_conv", dim, 1, 3)
        if stage + 1 < len(dims):
            wide(f"layers.{stage}.downsample", dim, dims[stage + 1], dims[stage + 1])
    add("neck.0.weight", neck, dims[-1], 1, 1)
    add("neck.2.weight", neck, neck, 3, 3)
    for k in (1, 3):
        add(f"neck.{k}.weight", neck)
        add(f"neck.{k}.bias", neck)
    add("head.weight", 2, dims[-1])
    return made


class _Tensor:
    """Pickles as a tensor of a checkpoint does."""

    def __init__(self, key, array):
        self.key, self.array = key, array


class _Global:
    """Pickles as the name of a class or function, which need not exist."""

    def __init__(self, module, name):
        self.module, self.name = module, name


class _Pickler(pickle._Pickler):
    """Writes what torch would write, without it."""

    def persistent_id(self, item):
        if not isinstance(item, tuple) or item[:1] != ("storage",):
            return None
        return item

    def save(self, item, save_persistent_id=True):
        if isinstance(item, _Global):
            self.write(pickle.GLOBAL + f"{item.module}\n{item.name}\n".encode())
        elif isinstance(item, _Tensor):
            a = item.array
            kind = {"f": "FloatStorage", "i": "LongStorage"}[a.dtype.kind]
            storage = ("storage", _Global("torch", kind), item.key, "cpu", a.size)
            strides = tuple(step // a.itemsize for step in a.strides)
            self.save(_Global("torch._utils", "_rebuild_tensor_v2"))
            # A tuple of the storage's place and of the rest; then the call.
            self.write(pickle.MARK)
            self.save_persistent(storage)
            for part in (0, a.shape, strides, False, None):
                self.save(part)
            self.write(pickle.TUPLE + pickle.REDUCE)
        else:
            super().save(item, save_persistent_id)

    def save_persistent(self, storage):
        self.write(pickle.MARK)
        for part in storage:
            self.save(part, save_persistent_id=False)
        self.write(pickle.TUPLE + pickle.BINPERSID)


def checkpoint_bytes(tensors, extra=None):
    """A checkpoint of named arrays in the zip format; `extra` joins the dictionary."""
    arrays = {name: np.asarray(a, order="C") for name, a in tensors.items()}
    keys = {name: str(k) for k, name in enumerate(arrays)}
    text = io.BytesIO()
    _Pickler(text, protocol=2).dump(
        {name: _Tensor(keys[name], a) for name, a in arrays.items()} | (extra or {})
    )
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("tiny/data.pkl", text.getvalue())
        for name, a in arrays.items():
            archive.writestr(f"tiny/data/{keys[name]}", a.tobytes())
    return out.getvalue()
