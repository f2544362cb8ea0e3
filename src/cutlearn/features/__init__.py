"""Images become numbers at nodes and edges: banks of filters, boosted logits, edge contrasts."""
