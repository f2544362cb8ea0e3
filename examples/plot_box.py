"""One image, a box, two strokes: nothing is trained.

A picture is made of a figure of several colours before a background that shares one of them. A box
finds most of it; strokes where the mask is wrong do the rest. The last panel is the probability,
with the window in which another stroke would tell most.
"""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from scipy import ndimage

import cutlearn as cl
from cutlearn.report.displays import borders_over

y, x = np.mgrid[:180, :240]
body = ((y - 105) / 55) ** 2 + ((x - 120) / 42) ** 2 < 1
head = (y - 48) ** 2 + (x - 120) ** 2 < 20**2
truth = (body | head).astype(np.uint8)
image = np.empty((180, 240, 3))
image[:] = (0.35, 0.55, 0.35)
image[y > 140 + 6 * np.sin(x / 15)] = (0.55, 0.45, 0.3)
image[body] = (0.75, 0.25, 0.25)
image[body & (abs(x - 120) < 12)] = (0.9, 0.85, 0.7)
image[head] = (0.5, 0.47, 0.35)
image = np.clip(image + np.random.default_rng(1).normal(0, 0.05, image.shape), 0, 1)

session = cl.Session()
session.set_image(image)
box, seeds = (16, 71, 173, 170), np.full(truth.shape, -1)
masks = [session.segment(box=box).labels]
for _ in range(2):  # mark the middle of the largest error, as a user would
    parts, _ = ndimage.label(masks[-1] != truth)
    largest = parts == 1 + np.bincount(parts.ravel())[1:].argmax()
    depth = ndimage.distance_transform_edt(largest)
    row, column = np.unravel_index(depth.argmax(), depth.shape)
    disc = np.hypot(y - row, x - column) <= min(depth.max(), 4)
    seeds = np.where(disc, truth, seeds)
    masks.append(session.segment(box=box, seeds=seeds).labels)
print("wrong pixels after the box and each stroke:", [int((m != truth).sum()) for m in masks])
area, (low, high) = session.area()
print(f"area {area:.0f} (between {low:.0f} and {high:.0f}); the true one is {truth.sum()}")

figure = Figure(figsize=(14, 3), layout="constrained")
shown = {
    "a box": image,
    "its mask": borders_over(image, masks[0]),
    "after two strokes": borders_over(image, masks[-1]),
    "probability": session.answer.probability[..., 1],
}
for axes, (title, picture) in zip(figure.subplots(1, 4), shown.items()):
    axes.imshow(picture, cmap="gray")
    axes.set(title=title, xticks=[], yticks=[])
for place, (top, left, bottom, right) in ((0, box), (3, session.where_next())):
    frame = Rectangle((left, top), right - left, bottom - top, fill=False, edgecolor="red")
    figure.axes[place].add_patch(frame)
figure.savefig("box.png")
print("wrote box.png")
