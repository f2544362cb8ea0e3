"""`python -m cutlearn`: the command line where its script is not on the path."""

from cutlearn.app.cli import main

main()
