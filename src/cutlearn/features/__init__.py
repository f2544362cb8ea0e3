"""Images become numbers: nodes, edges and their features, free of weights."""
