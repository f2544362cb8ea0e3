"""One file, or a few, for each paper: its experiments again, with figures beside the paper's.

Each has `run(course)`: it asks its `Course` for parts, which are kept, and ends with the tables,
claims and pictures that the course writes. `papers.PAPERS` lists them.
"""
