"""Probabilities of a max-margin model: where it doubts, how far it can be believed, what follows.

Six images of cells train the model; half of them at a time are held out to calibrate it. On twelve
new images the calibrated probabilities are half as wrong as the softmax of min-marginals, expected
areas come with intervals, and the images are ranked by what annotating them would tell.
"""

from functools import reduce
from operator import add

import numpy as np
from matplotlib.figure import Figure

import cutlearn as cl
from cutlearn.images import cells
from cutlearn.metrics import beliefs, count_error, mean_iou
from cutlearn.report.displays import ProbabilityDisplay, ReliabilityDisplay, RocDisplay

worlds = [cells(seed, (96, 128)) for seed in range(18)]
images, masks = [w.image for w in worlds], [w.labels for w in worlds]
new, truth = images[6:], masks[6:]

found = {}
for name, calibration in (("calibrated", "temperature"), ("plain softmax", None)):
    model = cl.Segmenter(features="linear", C=100.0, calibration=calibration)
    q = model.fit(images[:6], masks[:6]).predict_proba(new)
    found[name] = reduce(add, [beliefs(t, p) for t, p in zip(truth, q)])
    print(f"{name:14s} calibration error {found[name].calibration_error():.2%}, "
          f"log-likelihood {found[name].mean_log_likelihood():.3f}")  # fmt: skip
    if calibration:
        best, maps = model, q

for decision in ("map", "iou", "count"):
    guess = best.predict(new, decision=decision)
    print(f"decision {decision:6s} mean IoU {mean_iou(truth, guess):.3f}, "
          f"count error {count_error(truth, guess):.0f} pixels")  # fmt: skip

area, interval = best.area(new, level=0.9)
true = np.array([t.sum() for t in truth])
inside = (interval[:, 0] <= true) & (true <= interval[:, 1])
print(f"areas: {inside.sum()} of {len(true)} inside of their 90 % interval")
first = best.rank(new)[0]
corner = first.windows[0]
print(f"annotate image {first.image} next, and in it rows {corner.top}-{corner.bottom}, "
      f"columns {corner.left}-{corner.right}")  # fmt: skip

figure = Figure(figsize=(10, 8), layout="constrained")
top, bottom = figure.subfigures(2, 1, height_ratios=(1.1, 1))
ProbabilityDisplay(new[:2], maps[:2]).plot(top)
left, right = bottom.subplots(1, 2)
ReliabilityDisplay(found).plot(left)
RocDisplay(found).plot(right)
figure.savefig("probabilities.png", dpi=100)
print("wrote probabilities.png")
