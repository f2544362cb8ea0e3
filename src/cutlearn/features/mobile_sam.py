"""The image encoder of MobileSAM, a TinyViT of six million weights, in numpy.

In: an image (h, w, 3) float32 in [0, 1], its sides multiples of 16. Out: maps at strides 2, 4, 8,
16 and 16, and those of the neck. Convolutions with their batch norms folded in, then windows of
attention with a bias for every relative position,

    softmax(q k' / sqrt(d) + b(|dy|, |dx|)) v,

each followed by a depthwise convolution and a perceptron (Wu et al., TinyViT, ECCV 2022; Zhang et
al., Faster Segment Anything, 2023). Channels are the last axis: a convolution of 1 x 1 is a matrix
product. Wide layers are made in strips of rows that stay in the processor's cache.
"""

from collections.abc import Mapping
from math import isqrt

import numpy as np

from cutlearn.arrays import AnyArray, Image

# The sizes of a map's sides are those of the image divided by this, at the last stages.
STRIDE = 16
# Mean and deviation of the colours that the encoder was trained on.
MEAN = np.array([123.675, 116.28, 103.53], np.float32) / np.float32(255)
SPREAD = np.array([58.395, 57.12, 57.375], np.float32) / np.float32(255)
# Added to variances, by the norms of the body and of the neck.
EPSILON, NECK_EPSILON = 1e-5, 1e-6
# Float32 numbers of a strip at most: the cache has to hold it and what is made of it.
STRIP = 1 << 17
# gelu(x) = x (1 + tanh(x P(x x))) / 2, with an error below 1e-7; beyond FAR, tanh is 1 in float32.
GELU = (0.7978842686148047, 0.036334148426515715, -3.302617188957849e-05, -5.5273546142984966e-05,
        3.974092583113536e-06, -1.3378454716447942e-07, 1.8139574595888928e-09)  # fmt: skip
FAR = 30.25


class TinyViT:
    """The encoder; the sizes of its parts are those of its arrays.

    Parameters
    ----------
    arrays : mapping of arrays of any float type, as `folded` returns them
    """

    def __init__(self, arrays: Mapping[str, AnyArray]) -> None:
        self._weights = {name: np.asarray(a, np.float32) for name, a in arrays.items()}
        self._stages: list[list[str]] = []
        places = sorted({tuple(name.split(".")[1:4:2]) for name in arrays if ".blocks." in name})
        for stage, block in places:
            if int(stage) == len(self._stages):
                self._stages.append([])
            self._stages[-1].append(f"layers.{stage}.blocks.{block}")

    def maps(self, image: Image) -> list[Image]:
        """Return the maps of an image, (h', w', channels) each."""
        x = gelu(self._convolve((image - MEAN) / SPREAD, "patch_embed.seq.0", 2))
        found = [x]
        x = self._convolve(x, "patch_embed.seq.2", 2)
        for number, blocks in enumerate(self._stages):
            for block in blocks:
                x = self._wide(x, block, 1, x) if number == 0 else self._attention(x, block)
            found.append(x)
            if number < len(self._stages) - 1:
                # The last stage has the resolution of the one before it.
                stride = 1 if number == len(self._stages) - 2 else 2
                x = self._wide(x, f"layers.{number}.downsample", stride)
        x = self._norm(x @ self._weights["neck.0.w"], "neck.1", NECK_EPSILON)
        x = self._norm(self._convolve(x, "neck.2", 1), "neck.3", NECK_EPSILON)
        return [*found, x]

    def _convolve(self, x: Image, name: str, stride: int) -> Image:
        """Convolve by 3 x 3 through one matrix product."""
        h, w = ((n - 1) // stride + 1 for n in x.shape[:2])
        padded = np.pad(x, ((1, 1), (1, 1), (0, 0)))
        taps = [
            padded[dy : dy + stride * h : stride, dx : dx + stride * w : stride][:h, :w]
            for dy in range(3)
            for dx in range(3)
        ]
        made: Image = np.concatenate(taps, axis=-1).reshape(h * w, -1) @ self._weights[f"{name}.w"]
        if (bias := self._weights.get(f"{name}.b")) is not None:
            made += bias
        return made.reshape(h, w, -1)

    def _wide(self, x: Image, name: str, stride: int, shortcut: Image | None = None) -> Image:
        """Widen by 1 x 1, convolve depthwise, narrow by 1 x 1, with GELU between them."""
        (wide, b1), (kernel, b2), (narrow, b3) = (
            (self._weights[f"{name}.conv{k}.w"], self._weights[f"{name}.conv{k}.b"])
            for k in (1, 2, 3)
        )
        h, w = ((n - 1) // stride + 1 for n in x.shape[:2])
        out = np.empty((h, w, narrow.shape[1]), np.float32)
        rows = max(1, STRIP // (stride * x.shape[1] * wide.shape[1]))
        for first in range(0, h, rows):
            last = min(h, first + rows)
            low, high = stride * first - 1, stride * (last - 1) + 2  # rows of x that are seen
            seen = x[max(0, low) : high]
            inner = np.zeros((high - low, x.shape[1] + 2, wide.shape[1]), np.float32)
            part = seen.reshape(-1, x.shape[2]) @ wide
            part += b1
            top = max(0, -low)
            inner[top : top + len(seen), 1:-1] = gelu(part).reshape(*seen.shape[:2], -1)
            middle = gelu(_depthwise(inner, kernel, b2, (last - first, w), stride))
            np.matmul(middle, narrow, out=out[first:last])
            out[first:last] += b3
            if shortcut is not None:
                out[first:last] += shortcut[first:last]
                gelu(out[first:last])
        return out

    def _attention(self, x: Image, name: str) -> Image:
        """Attend within windows, convolve depthwise, and apply the perceptron; with shortcuts."""
        h, w, c = x.shape
        bias = self._weights[f"{name}.attn.attention_biases"]
        heads, side = len(bias), isqrt(bias.shape[1])
        down, across = -(-h // side), -(-w // side)
        padded = np.pad(x, ((0, down * side - h), (0, across * side - w), (0, 0)))
        normed = self._norm(padded, f"{name}.attn.norm")
        made = self._linear(normed, f"{name}.attn.qkv")
        made = made.reshape(down, side, across, side, heads, 3, c // heads)
        q, k, v = made.transpose(5, 0, 2, 4, 1, 3, 6).reshape(
            3, down * across, heads, side * side, c // heads
        )
        scores = (q * np.float32((c // heads) ** -0.5)) @ k.swapaxes(-1, -2)
        scores += _relative(bias, side)
        scores -= scores.max(axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        seen = (scores @ v) / scores.sum(axis=-1, keepdims=True)
        seen = seen.reshape(down, across, heads, side, side, -1).transpose(0, 3, 1, 4, 2, 5)
        seen = seen.reshape(down * side, across * side, c)[:h, :w]
        x = x + self._linear(seen, f"{name}.attn.proj")
        kernel, shift = (self._weights[f"{name}.local_conv.{part}"] for part in "wb")
        x = _depthwise(np.pad(x, ((1, 1), (1, 1), (0, 0))), kernel, shift, (h, w), 1)
        inner = gelu(self._linear(self._norm(x, f"{name}.mlp.norm"), f"{name}.mlp.fc1"))
        x += self._linear(inner, f"{name}.mlp.fc2")
        return x

    def _linear(self, x: Image, name: str) -> Image:
        flat: Image = x.reshape(-1, x.shape[-1]) @ self._weights[f"{name}.w"]
        flat += self._weights[f"{name}.b"]
        return flat.reshape((*x.shape[:-1], -1))

    def _norm(self, x: Image, name: str, epsilon: float = EPSILON) -> Image:
        """Normalise every pixel over its channels."""
        made: Image = x - x.mean(axis=-1, keepdims=True)
        variance = np.einsum("...c,...c->...", made, made)[..., None] / np.float32(x.shape[-1])
        made /= np.sqrt(variance + np.float32(epsilon))
        made *= self._weights[f"{name}.w"]
        made += self._weights[f"{name}.b"]
        return made


def gelu(x: Image) -> Image:
    """Apply x Phi(x) in place, Phi the normal distribution function; return the contiguous array.

    Examples
    --------
    >>> import numpy as np
    >>> from cutlearn.features.mobile_sam import gelu
    >>> [round(float(y), 4) for y in gelu(np.array([0, 1, 9], np.float32))]
    [0.0, 0.8413, 9.0]
    """
    flat = x.reshape(-1)
    for begin in range(0, flat.size, STRIP):
        part = flat[begin : begin + STRIP]
        square = np.minimum(part * part, np.float32(FAR))
        inner = square * np.float32(GELU[-1])
        for factor in GELU[-2:0:-1]:
            inner += np.float32(factor)
            inner *= square
        inner += np.float32(GELU[0])
        inner *= part
        np.tanh(inner, out=inner)
        inner += np.float32(1)
        inner *= np.float32(0.5)
        part *= inner
    return x


def _depthwise(
    padded: Image, kernel: Image, bias: Image, shape: tuple[int, int], stride: int
) -> Image:
    """Convolve each channel by its 3 x 3 kernel; `padded` has one more pixel on every side."""
    h, w = shape
    made = np.empty((h, w, padded.shape[2]), np.float32)
    rows = max(1, STRIP // (w * padded.shape[2]))
    scratch = np.empty((min(rows, h), w, padded.shape[2]), np.float32)
    for first in range(0, h, rows):
        out = made[first : first + rows]
        out[:] = bias
        product = scratch[: len(out)]
        for dy in range(3):
            start = stride * first + dy
            taken = padded[start : start + stride * (len(out) - 1) + 1 : stride]
            for dx in range(3):
                shifted = taken[:, dx : dx + stride * (w - 1) + 1 : stride]
                out += np.multiply(shifted, kernel[dy, dx], out=product)
    return made


def _relative(bias: Image, side: int) -> Image:
    """Return the bias of every pair of pixels of a window, (heads, pixels, pixels)."""
    y, x = np.divmod(np.arange(side * side), side)
    return bias[:, abs(y[:, None] - y) * side + abs(x[:, None] - x)]


def folded(tensors: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
    """Return the encoder's arrays of a checkpoint: batch norms folded, float16, channels last.

    Parameters
    ----------
    tensors : mapping of arrays
        Those of the checkpoint whose names begin with "image_encoder.", without this word.
    """
    made: dict[str, AnyArray] = {}
    for name, values in tensors.items():
        value = np.asarray(values, np.float64)
        stem, _, kind = name.rpartition(".")
        if stem.endswith(".c"):
            stem = stem[:-2]
            gain, shift, mean, variance = (
                np.asarray(tensors[f"{stem}.bn.{part}"], np.float64)
                for part in ("weight", "bias", "running_mean", "running_var")
            )
            gain = gain / np.sqrt(variance + EPSILON)
            made[f"{stem}.b"] = shift - mean * gain
            value = value * gain[:, None, None, None]
        elif ".bn" in name:
            continue
        if value.ndim == 4:
            value = value.transpose(2, 3, 1, 0)  # rows, columns, channels in, channels out
            depthwise = value.shape[:3] == (3, 3, 1)
            value = value[:, :, 0] if depthwise else value.reshape(-1, value.shape[3])
        elif kind == "weight":
            value = value.T
        made[{"weight": f"{stem}.w", "bias": f"{stem}.b"}.get(kind, name)] = value
    return {name: np.ascontiguousarray(a, np.float16) for name, a in sorted(made.items())}
