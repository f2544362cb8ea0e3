"""`python -m cutlearn`: the command line where its script is not on the path."""

from cutlearn.app.cli import main

if __name__ == "__main__":
    main()
