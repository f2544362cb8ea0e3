"""The page of `cutlearn serve`: a small server on this machine, and what it keeps on the disk."""
