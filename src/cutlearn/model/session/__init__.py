"""Interactive segmentation: one image with boxes and strokes, or with the logits of any network."""
