"""A small U-Net of a maintained framework, as a rival: `pip install torch` (only for this file).

    python benchmarks/unet.py --data DIR --sets weizmann_horses em_epfl_ca1 [--seconds 60]

The usual one: levels of two 3 x 3 convolutions with batch normalisation, maximum pooling,
transposed convolutions, concatenation; Adam with warm-up and cosine decay, cross-entropy and Dice,
half precision where the processor has it, one thread. It is trained for a number of CPU seconds,
with crops, zoom, mirrors, turns (micrographs), brightness and contrast; photographs are seen with a
shorter side of 128 pixels, as by our nets. The call above compares recipes on a third of the
training images, never on test images: that is how `RECIPE` was chosen.
"""

import argparse
import time
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from answers import BELIEVED, Answer, Clock, percent_of
from splits import RULES, Split, split
from torch import nn
from torch.nn import functional

import cutlearn as cl
from cutlearn.arrays import VOID
from cutlearn.metrics import confusions, stack_tables

torch.set_num_threads(1)


@dataclass(frozen=True)
class Recipe:
    """How it is trained; seconds of CPU."""

    seconds: float = 90.0
    base: int = 8
    levels: int = 4
    rate: float = 3e-3
    batch: int = 8
    side: int = 128  # of photographs
    zoom: float = 0.3
    light: float = 0.25


RECIPE = Recipe()
CROPS = {True: (128, 160), False: (160, 160)}


def unit(before, after):
    """Two convolutions."""
    parts = []
    for c in (before, after):
        parts += [nn.Conv2d(c, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
    return nn.Sequential(*parts)


class UNet(nn.Module):
    """Images (n, c, h, w), sides divisible by 2 ** (levels - 1), to scores (n, L, h, w)."""

    def __init__(self, channels, n_labels, base, levels):
        super().__init__()
        width = [base * 2**k for k in range(levels)]
        self.down = nn.ModuleList(unit(a, b) for a, b in zip([channels, *width], width))
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in pairwise(width))
        self.join = nn.ModuleList(unit(2 * a, a) for a in width[:-1])
        self.last = nn.Conv2d(base, n_labels, 1)

    def forward(self, x):
        """Scores of the labels."""
        kept = []
        for k, down in enumerate(self.down):
            x = down(functional.max_pool2d(x, 2) if k else x)
            kept.append(x)
        for up, join, skip in zip(reversed(self.up), reversed(self.join), reversed(kept[:-1])):
            x = join(torch.cat([skip, up(x)], dim=1))
        return self.last(x)


def loss_of(scores, labels, n_labels):
    """Cross-entropy plus Dice over the labels that are there, void left out."""
    known = labels != VOID
    entropy = functional.cross_entropy(scores, labels, ignore_index=VOID)
    q = scores.softmax(dim=1) * known[:, None]
    one = functional.one_hot(torch.where(known, labels, 0), n_labels).movedim(-1, 1)
    one = one * known[:, None]
    both, sums = (q * one).sum(dim=(0, 2, 3)), (q + one).sum(dim=(0, 2, 3))
    there = one.sum(dim=(0, 2, 3)) > 0
    there[0] &= n_labels > 2  # of two labels, the object's
    return entropy + 1 - ((2 * both + 1) / (sums + 1))[there].mean() if there.any() else entropy


class Net:
    """A U-Net with the scale of its images: `fit` on pairs, `scores` of an image."""

    def __init__(self, pairs, n_labels, recipe, seed):
        self.recipe, self.n_labels = recipe, n_labels
        self.rng = np.random.default_rng(seed)
        torch.manual_seed(seed)
        self.photograph = pairs[0][0].ndim == 3
        values = [np.atleast_3d(i).reshape(-1, np.atleast_3d(i).shape[2]) / 255 for i, _ in pairs]
        self.mean = np.mean([v.mean(axis=0) for v in values], axis=0)
        self.deviation = np.mean([v.std(axis=0) for v in values], axis=0) + 1e-3
        channels = len(self.mean)
        net = UNet(channels, n_labels, recipe.base, recipe.levels)
        self.net = net.to(memory_format=torch.channels_last)
        self.images = [self.scaled(image) for image, _ in pairs]
        self.masks = [torch.tensor(mask.astype(np.int64)) for _, mask in pairs]
        self.steps = 0

    def scaled(self, image):
        """An image as a tensor (c, h, w), photographs at their working size."""
        x = (np.atleast_3d(image) / 255 - self.mean) / self.deviation
        x = torch.tensor(x, dtype=torch.float32).movedim(-1, 0)
        if self.photograph and min(x.shape[1:]) > self.recipe.side:
            shape = [round(n * self.recipe.side / min(x.shape[1:])) for n in x.shape[1:]]
            x = functional.interpolate(x[None], shape, mode="bilinear", antialias=True)[0]
        return x

    def crop(self):
        """A window of a random image, zoomed, turned and relit, with its labels."""
        rng, i = self.rng, self.rng.integers(len(self.images))
        image, mask = self.images[i], self.masks[i]
        shape, size = np.array(image.shape[1:]), np.array(CROPS[self.photograph])
        half = size * np.exp(rng.uniform(-self.recipe.zoom, self.recipe.zoom)) / shape
        slack = np.maximum(1 - half, 0.1)
        center = rng.uniform(-slack, slack)
        if not self.photograph and rng.random() < 0.5:
            object_ = torch.nonzero(mask == 1)
            if len(object_):
                place = object_[rng.integers(len(object_))].numpy() / np.array(mask.shape) * 2 - 1
                center = place + rng.uniform(-0.4, 0.4, 2) * half
        turn = np.diag(half)[:, rng.permutation(2) if not self.photograph else [0, 1]]
        turn = turn * [1 if self.photograph else rng.choice([-1, 1]), rng.choice([-1, 1])]
        theta = torch.tensor(np.c_[turn[::-1, ::-1], center[::-1]], dtype=torch.float32)
        grid = functional.affine_grid(theta[None], [1, 1, *size], align_corners=False)
        x = functional.grid_sample(image[None], grid, "bilinear", "reflection", False)[0]
        known = (mask != VOID) * (mask + 1)
        y = functional.grid_sample(known[None, None].float(), grid, "nearest", "zeros", False)
        y = y[0, 0].long() - 1
        light = self.recipe.light
        x = x * np.exp(rng.uniform(-light, light)) + rng.uniform(-light, light)
        return x, torch.where(y < 0, VOID, y)

    def fit(self):
        """Train until the CPU seconds are over."""
        recipe, clock = self.recipe, time.process_time
        adam = torch.optim.Adam(self.net.parameters(), recipe.rate)
        begin = clock()
        self.net.train()
        while (part := (clock() - begin) / recipe.seconds) < 1:
            rate = recipe.rate * min(1.0, 0.05 + part / 0.1) * (0.51 + 0.49 * np.cos(np.pi * part))
            adam.param_groups[0]["lr"] = rate
            images, labels = zip(*(self.crop() for _ in range(recipe.batch)))
            x = torch.stack(images).to(memory_format=torch.channels_last)
            with torch.autocast("cpu", torch.bfloat16):
                scores = self.net(x)
            adam.zero_grad()
            loss_of(scores.float(), torch.stack(labels), self.n_labels).backward()
            adam.step()
            self.steps += 1
        self.net.eval()
        return self

    @torch.no_grad()
    def scores(self, image):
        """The mean scores of an image and its mirror image, (h, w, L)."""
        x = self.scaled(image)[None]
        grain = 2 ** (self.recipe.levels - 1)
        more = [-n % grain for n in x.shape[2:]]
        wide = functional.pad(x, (0, more[1], 0, more[0]), "reflect")
        found = []
        for view in (wide, wide.flip(3)):
            with torch.autocast("cpu", torch.bfloat16):
                found.append(self.net(view.contiguous(memory_format=torch.channels_last)).float())
        both = ((found[0] + found[1].flip(3)) / 2)[..., : x.shape[2], : x.shape[3]]
        full = functional.interpolate(both, image.shape[:2], mode="bilinear")[0]
        return full.movedim(0, -1).numpy()


def unet(split, seed, recipe=RECIPE):
    """A U-Net, the likeliest label of every pixel; and `cl.refine` on top, which is not trained."""
    clock = Clock()
    net = Net(split.train, split.n_labels, recipe, seed).fit()
    answer = Answer(seconds={"features": clock(), "cut": 0.0}, remark=f"{net.steps} steps")
    predict = 0.0
    for k, (image, _) in enumerate(split.test):
        clock()
        scores = net.scores(image)
        predict += clock()
        answer.plain.append(scores.argmax(axis=-1).astype(np.uint8))
        odds = scores[..., 1] - scores[..., 0] if split.n_labels == 2 else scores
        answer.cut.append(cl.refine(odds, image))
        if k < BELIEVED:
            answer.q.append(torch.tensor(scores).softmax(dim=-1).numpy())
    answer.seconds["predict"] = predict / len(split.test)
    return answer


def thirds(given):
    """A split whose test images are a third of the training images."""
    groups = given.groups or list(range(len(given.train)))
    out = [g % 3 == 2 for g in groups]
    parts = [[pair for pair, away in zip(given.train, out) if away == k] for k in (False, True)]
    return Split(parts[0], [g for g, away in zip(groups, out) if not away], parts[1])


# What was compared: the recipe, and one thing changed at a time.
CHANGES = ({}, {"rate": 1e-2}, {"base": 16}, {"batch": 4}, {"zoom": 0.15, "light": 0.1})


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", choices=RULES, required=True)
    parser.add_argument("--seconds", type=float, default=60.0)
    given = parser.parse_args()
    for name in given.sets:
        part = thirds(split(name, given.data, 0))
        figure, truth = percent_of(part.n_labels), [m for _, m in part.test]
        for change in CHANGES:
            answer = unet(part, 0, replace(RECIPE, seconds=given.seconds, **change))
            sums = stack_tables(confusions(truth, answer.plain, part.n_labels)).sum(axis=0)
            print(f"{name}: {change}, {answer.remark}: {figure(sums):.1f} %", flush=True)


if __name__ == "__main__":
    main()
