"""Small folders of images and masks for the tests of the command line."""

from cutlearn.images import cells, write_mask, write_probability


def make_folders(root, n=4, shape=(40, 48), seed=0):
    """Write n images of cells and their masks (0 and 255); give the two folders."""
    images, masks = root / "images", root / "masks"
    images.mkdir(parents=True)
    masks.mkdir()
    for i in range(n):
        world = cells(seed + i, shape)
        write_probability(images / f"cell{i}.png", world.image)
        write_mask(masks / f"cell{i}.png", world.labels, 255)
    return str(images), str(masks)
