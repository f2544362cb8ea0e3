"""Images to features: filters, sources of logits, edge features. Imports nothing heavy."""

# What `features=` may be, in a few words for help.
SUMMARIES = {
    "trees": "boosted trees, good on photographs",
    "net": "a very small net, good on micrographs",
    "stacked": "trees that see the net's logits around a pixel, good on photographs",
    "both": "trees and net side by side",
    "pretrained": "a linear head over a pretrained network (--backbone), best on photographs",
    "auto": "chosen among these by held-out images, within --budget",
    "linear": "filters only, done in seconds",
    "given": "only those of --logits, which is what auto means with them",
}
# Seconds for all that learns logits, for up to 20 images of 300 x 400 pixels.
BUDGETS = {"fast": 40.0, "normal": 75.0, "best": 240.0}
