"""Learning: losses, the oracle that makes planes, masters that use them, and the one loop."""
