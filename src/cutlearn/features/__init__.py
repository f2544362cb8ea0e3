"""Images become arrays: nodes, edges and their features, free of weights."""
