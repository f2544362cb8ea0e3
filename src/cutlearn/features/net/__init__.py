"""A very small U-shaped net in plain numpy: logits of every pixel, learned in about a minute."""
