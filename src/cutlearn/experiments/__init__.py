"""One file for each paper: its experiment again, with figures beside the paper's.

Each has `run(output, data, tell)`: it writes its table and pictures to the folder `output`, reads
real images under `data` if it needs any, tells what it does to `tell`, and gives a `Reproduction`.
"""
