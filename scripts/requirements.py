"""Print the project's requirements, with those of the named extras, one a line.

`pip install .[dev]` would build the core in an isolated environment first; reading the table
lets the Makefile install the packages once and build the core apart, incrementally.
"""

import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
extras = project["optional-dependencies"]
for line in project["dependencies"] + [r for name in sys.argv[1:] for r in extras[name]]:
    sys.stdout.write(line + "\n")
