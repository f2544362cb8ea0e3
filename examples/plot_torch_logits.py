"""A network of PyTorch as the source of logits, and a learned cut as its last layer.

Two small networks are trained, each without half of the images; the cut learns from logits of
images that the network did not see. Without torch there is nothing to show.
"""

import sys

import numpy as np
from matplotlib.figure import Figure

import cutlearn as cl
from cutlearn.images import cells
from cutlearn.metrics import mean_iou

try:
    import torch
    from torch import nn
except ImportError:
    sys.exit(print("skipped: torch is not installed"))

torch.manual_seed(0)
worlds = [cells(seed, (96, 128)) for seed in range(8)]
images, masks = [w.image for w in worlds], [w.labels for w in worlds]
x = torch.tensor(np.stack(images))[:, None] - 0.5
y = torch.tensor(np.stack(masks), dtype=torch.float32)[:, None]


def network(chosen):
    """A network that saw only some of the images."""
    layers = [nn.Sequential(nn.Conv2d(c, 16, 3, padding=d, dilation=d), nn.ReLU())
              for c, d in ((1, 1), (16, 2), (16, 4))]  # fmt: skip
    net = nn.Sequential(*layers, nn.Conv2d(16, 1, 1))
    steps = torch.optim.Adam(net.parameters(), 1e-2)
    for _ in range(60):
        steps.zero_grad()
        nn.functional.binary_cross_entropy_with_logits(net(x[chosen]), y[chosen]).backward()
        steps.step()
    return net.eval()


nets = [network([2, 3]), network([0, 1])]
with torch.no_grad():
    both = [net(x).numpy()[:, 0] for net in nets]
# Images 0 and 1 from the network that saw 2 and 3, and the other way; new ones from both.
logits = [*both[0][:2], *both[1][2:4], *(both[0][4:] + both[1][4:]) / 2]
samples = [cl.Sample(image, extra=z) for image, z in zip(images, logits)]
model = cl.Segmenter(features="given").fit(samples[:4], masks[:4])
found = model.predict(samples[4:])
plain = [(z > 0).astype(np.uint8) for z in logits[4:]]
print(f"network {mean_iou(masks[4:], plain):.3f}, with the cut {mean_iou(masks[4:], found):.3f}")
figure = Figure(figsize=(8, 3), layout="constrained")
for axes, picture in zip(figure.subplots(1, 3), (images[4], logits[4], found[0])):
    axes.imshow(picture, cmap="gray")
figure.savefig("torch_logits.png")
print("wrote torch_logits.png")
