"""The doors for people: the command line."""
