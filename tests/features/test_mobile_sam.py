"""The encoder of MobileSAM: every layer against explicit loops, and real weights where they are."""

import os

import numpy as np
import pytest
from scipy.special import erf

from cutlearn.features.backbone import Installed, is_installed
from cutlearn.features.mobile_sam import MEAN, SPREAD, TinyViT, folded, gelu
from tiny_backbone import DEPTHS, DIMS, HEADS, WINDOWS, tiny_tensors

PREFIX = "image_encoder."
# Of the reference implementation, on `pattern(64, 96)`: deviation of each map, and four numbers.
REFERENCE = (
    ((32, 32, 48), 1.8388, 0.6235, 1.9309, 1.6299, 0.0361),
    ((64, 16, 24), 1.1981, 1.8908, 1.0082, 1.8442, 2.8775),
    ((128, 8, 12), 1.7734, -0.4767, 4.4394, 1.0408, -0.6359),
    ((160, 4, 6), 1.6123, -2.3207, 1.2373, -2.5334, -2.3649),
    ((320, 4, 6), 2.3231, 14.8414, -1.1537, 1.9713, 4.6725),
    ((256, 4, 6), 0.0961, -0.036, 0.0716, -0.0855, 0.0467),
)


def inner(tensors):
    """The tensors without their prefix and without the head."""
    return {n.removeprefix(PREFIX): a for n, a in tensors.items() if ".head" not in n}


def pattern(h, w):
    y, x = np.mgrid[:h, :w]
    planes = (np.sin(y / 17) / 2 + 0.5, np.cos(x / 23) / 2 + 0.5,
              (y // 32 + x // 48) % 2 * 0.7 + 0.1)  # fmt: skip
    return np.stack(planes, axis=-1).astype(np.float32)


def slow_gelu(x):
    return x * (1 + erf(x / np.sqrt(2))) / 2


def slow_convolution(x, kernel, stride, depthwise=False):
    """(channels out, in, 3, 3) or (out, in, 1, 1), on (in, h, w), pixel by pixel."""
    out, _, side, _ = kernel.shape
    pad = side // 2
    x = np.pad(x, ((0, 0), (pad, pad), (pad, pad)))
    h, w = ((n - side) // stride + 1 for n in x.shape[1:])
    made = np.zeros((out, h, w))
    for r in range(h):
        for c in range(w):
            seen = x[:, stride * r : stride * r + side, stride * c : stride * c + side]
            seen = seen[:, None] if depthwise else seen[None]
            made[:, r, c] = (kernel * seen).sum(axis=(1, 2, 3))
    return made


def slow_norm(x, gain, shift, epsilon):
    """Over the channels of (channels, h, w)."""
    away = x - x.mean(axis=0)
    made = away / np.sqrt((away**2).mean(axis=0) + epsilon)
    return made * gain[:, None, None] + shift[:, None, None]


class Slow:
    """The network of unfolded tensors, by explicit loops, channels first, in double."""

    def __init__(self, tensors):
        self.tensors = {name: a.astype(float) for name, a in inner(tensors).items()}

    def convolution(self, x, name, stride, depthwise=False):
        t = self.tensors
        made = slow_convolution(x, t[f"{name}.c.weight"], stride, depthwise)
        mean, variance = t[f"{name}.bn.running_mean"], t[f"{name}.bn.running_var"]
        for k in range(len(made)):
            made[k] = (made[k] - mean[k]) / np.sqrt(variance[k] + 1e-5)
            made[k] = made[k] * t[f"{name}.bn.weight"][k] + t[f"{name}.bn.bias"][k]
        return made

    def wide(self, x, name, stride):
        made = slow_gelu(self.convolution(x, f"{name}.conv1", 1))
        made = slow_gelu(self.convolution(made, f"{name}.conv2", stride, depthwise=True))
        return self.convolution(made, f"{name}.conv3", 1)

    def linear(self, vector, name):
        return self.tensors[f"{name}.weight"] @ vector + self.tensors[f"{name}.bias"]

    def block(self, x, name, heads, side):
        t, (c, h, w) = self.tensors, x.shape
        size = c // heads
        padded = np.pad(x, ((0, 0), (0, -h % side), (0, -w % side)))
        normed = slow_norm(padded, t[f"{name}.attn.norm.weight"], t[f"{name}.attn.norm.bias"], 1e-5)
        seen = np.zeros_like(padded)
        for top in range(0, padded.shape[1], side):
            for left in range(0, padded.shape[2], side):
                pixels = [(top + a, left + b) for a in range(side) for b in range(side)]
                said = [self.linear(normed[:, r, q], f"{name}.attn.qkv") for r, q in pixels]
                for head in range(heads):
                    parts = [v.reshape(heads, 3, size)[head] for v in said]
                    bias = t[f"{name}.attn.attention_biases"][head]
                    for (r, q), own in zip(pixels, parts):
                        scores = np.array([
                            own[0] @ other[1] / np.sqrt(size) + bias[abs(r - y) * side + abs(q - x)]
                            for (y, x), other in zip(pixels, parts)
                        ])  # fmt: skip
                        share = np.exp(scores) / np.exp(scores).sum()
                        seen[head * size : (head + 1) * size, r, q] = share @ [p[2] for p in parts]
        seen = seen[:, :h, :w]
        for r in range(h):
            for q in range(w):
                x[:, r, q] += self.linear(seen[:, r, q], f"{name}.attn.proj")
        x = self.convolution(x, f"{name}.local_conv", 1, depthwise=True)
        normed = slow_norm(x, t[f"{name}.mlp.norm.weight"], t[f"{name}.mlp.norm.bias"], 1e-5)
        for r in range(h):
            for q in range(w):
                hidden = slow_gelu(self.linear(normed[:, r, q], f"{name}.mlp.fc1"))
                x[:, r, q] += self.linear(hidden, f"{name}.mlp.fc2")
        return x

    def maps(self, image):
        t, x = self.tensors, ((image.astype(float) - MEAN) / SPREAD).transpose(2, 0, 1)
        x = slow_gelu(self.convolution(x, "patch_embed.seq.0", 2))
        found = [x]
        x = self.convolution(x, "patch_embed.seq.2", 2)
        for stage in range(4):
            for k in range(DEPTHS[stage]):
                name = f"layers.{stage}.blocks.{k}"
                if stage == 0:
                    x = slow_gelu(x + self.wide(x, name, 1))
                else:
                    x = self.block(x.copy(), name, HEADS[stage], WINDOWS[stage])
            found.append(x)
            if stage < 3:
                x = self.wide(x, f"layers.{stage}.downsample", 1 if stage == 2 else 2)
        for k in (0, 2):
            x = slow_convolution(x, t[f"neck.{k}.weight"], 1)
            x = slow_norm(x, t[f"neck.{k + 1}.weight"], t[f"neck.{k + 1}.bias"], 1e-6)
        return [*found, x]


def rounded(tensors):
    """Tensors whose folded arrays float16 holds exactly: nothing is left to round but sums."""
    made = {}
    for name, a in tensors.items():
        if ".bn." in name:
            plain = {"weight": 1.0, "bias": 0.25, "running_mean": 0.0, "running_var": 1 - 1e-5}
            a = np.full_like(a, plain.get(name.rpartition(".")[2], 0), dtype=float)
        made[name] = a.astype(np.float16).astype(float) if ".bn." not in name else a
    return made


def test_the_network_equals_explicit_loops():
    tensors = rounded(tiny_tensors())
    image = np.random.default_rng(1).uniform(size=(48, 32, 3)).astype(np.float32)
    found, wanted = TinyViT(folded(inner(tensors))).maps(image), Slow(tensors).maps(image)
    assert [a.shape[2] for a in found] == [DIMS[0] // 2, *DIMS, 5]
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a.transpose(2, 0, 1), b, rtol=2e-4, atol=2e-4)


def test_batch_norms_are_folded_into_the_convolutions_before_them():
    tensors = tiny_tensors(2)
    image = np.random.default_rng(1).uniform(size=(32, 32, 3)).astype(np.float32)
    found, wanted = TinyViT(folded(inner(tensors))).maps(image), Slow(tensors).maps(image)
    for a, b in zip(found, wanted, strict=True):  # what is left is the rounding to float16
        assert np.abs(a.transpose(2, 0, 1) - b).max() < 0.03 * b.std()


def test_strips_of_rows_change_nothing(monkeypatch):
    network = TinyViT(folded(inner(tiny_tensors())))
    image = np.random.default_rng(1).uniform(size=(48, 80, 3)).astype(np.float32)
    whole = network.maps(image)
    monkeypatch.setattr("cutlearn.features.mobile_sam.STRIP", 100)
    for a, b in zip(network.maps(image), whole):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_gelu_is_exact_to_seven_digits():
    x = np.linspace(-12, 12, 200_001).astype(np.float32)
    wanted = slow_gelu(x.astype(float))
    assert np.abs(gelu(x.copy()) - wanted).max() < 1e-6
    assert np.abs(gelu(x[abs(x) < 1]) - wanted[abs(x) < 1]).max() < 2e-7


def test_the_real_weights_give_the_maps_of_the_reference_implementation(monkeypatch):
    """Of the cache that the tests were started with, or the user's."""
    monkeypatch.setenv("CUTLEARN_CACHE", os.environ["CUTLEARN_INSTALLED"])
    if not is_installed("mobile-sam"):
        pytest.skip("mobile-sam is not installed")
    found = Installed("mobile-sam", 96).maps(pattern(64, 96))
    for a, (shape, deviation, *numbers) in zip(found, REFERENCE, strict=True):
        a = a.transpose(2, 0, 1)
        c, h, w = a.shape
        own = a[0, 0, 0], a[c // 2, h // 2, w // 2], a[c - 1, h - 1, w - 1], a[3, 1, 2]
        assert a.shape == shape
        assert abs(a.std() / deviation - 1) < 0.005
        np.testing.assert_allclose(own, numbers, atol=0.02 * deviation)
