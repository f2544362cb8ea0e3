"""Before and during training: parameters, sizes, the choice of C and bias, what it is scored by."""
