"""Your own classifier's logits under a learned cut: here a forest of scikit-learn, pixel by pixel.

Logits of training images must come from a classifier that did not see them, or the cut learns to
trust them too much: so the forest is fitted twice, each time without half of the images. New images
get the logits of a forest that saw all. Any network's output does as well; see docs/features.md.
"""

import numpy as np
from matplotlib.figure import Figure
from skimage.feature import multiscale_basic_features
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GroupKFold

import cutlearn as cl
from cutlearn.images import cells
from cutlearn.metrics import mean_iou

worlds = [cells(seed, (96, 128)) for seed in range(12)]
images, masks = [w.image for w in worlds], [w.labels for w in worlds]
rows = [multiscale_basic_features(i, sigma_max=8).reshape(i.size, -1) for i in images]
train, new = range(6), range(6, 12)


def forest(chosen):
    """A forest on every eighth pixel of some images."""
    x = np.concatenate([rows[i][::8] for i in chosen])
    y = np.concatenate([masks[i].ravel()[::8] for i in chosen])
    return RandomForestClassifier(30, min_samples_leaf=5, random_state=0).fit(x, y)


def logit(model, i):
    """The log-odds of every pixel of an image."""
    p = np.clip(model.predict_proba(rows[i])[:, 1], 0.01, 0.99).reshape(masks[i].shape)
    return np.log(p / (1 - p))


logits = {}
for kept, out in GroupKFold(2).split(train, groups=train):
    model = forest(kept)
    logits |= {i: logit(model, i) for i in out}
everything = forest(train)
logits |= {i: logit(everything, i) for i in new}

samples = [cl.Sample(image, extra=logits[i]) for i, image in enumerate(images)]
cut = cl.Segmenter(features="given").fit([samples[i] for i in train], [masks[i] for i in train])
found = cut.predict([samples[i] for i in new])
truth = [masks[i] for i in new]
plain = [(logits[i] > 0).astype(np.uint8) for i in new]
print(f"forest alone {mean_iou(truth, plain):.3f}, with the cut {mean_iou(truth, found):.3f}")

figure = Figure(figsize=(10, 3), layout="constrained")
shown = {"image": images[6], "logits": logits[6], "threshold": plain[0], "cut": found[0]}
for axes, (title, picture) in zip(figure.subplots(1, 4), shown.items()):
    axes.imshow(picture, cmap="gray")
    axes.set(title=title, xticks=[], yticks=[])
figure.savefig("own_logits.png")
print("wrote own_logits.png")
