"""Max-margin training: masters (planes in, next weights out), their programs, the run."""
