"""A command from outside works like ours: found by name, in the help, failures told in a line."""

from importlib.metadata import EntryPoint

import click
import pytest
from click.testing import CliRunner

import cutlearn as cl
from cutlearn.app import registry
from cutlearn.app.cli import main
from cutlearn.app.registry import command_names, register


def run(*args):
    return CliRunner().invoke(main, list(args))


@pytest.fixture(autouse=True)
def own_commands():
    kept = dict(registry.COMMANDS)
    yield
    registry.COMMANDS.clear()
    registry.COMMANDS.update(kept)


@click.command()
@click.argument("n", type=int)
def count(n):
    """Count to N, which may be 3 at most."""
    if n > 3:
        raise cl.InputError(f"count: {n} found; 3 at most can be counted.")
    click.echo(" ".join(map(str, range(1, n + 1))))
    return 3


def outside(monkeypatch, value):
    point = EntryPoint("plugged", value, registry.GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: [point])


def test_a_registered_command_is_run_and_its_code_is_the_exit_code():
    register(count)
    assert main.commands["count"] is count
    done = run("count", "3")
    assert (done.exit_code, done.stdout) == (3, "1 2 3\n")
    assert "Count to N" in run("--help").stdout


def test_failures_of_a_registered_command_are_told_in_one_line():
    register(count)
    done = run("count", "4")
    assert done.exit_code == 2
    assert done.stderr == "cutlearn: count: 4 found; 3 at most can be counted.\n"


def test_a_command_of_another_package_is_found(monkeypatch):
    monkeypatch.setattr(registry, "plugged", count, raising=False)
    outside(monkeypatch, "cutlearn.app.registry:plugged")
    assert "plugged" in command_names()
    assert run("plugged", "2").stdout == "1 2\n"


@pytest.mark.parametrize("value", ["no_such_package:command", "cutlearn.app.registry:GROUP"])
def test_a_package_that_cannot_be_loaded_harms_no_other_command(monkeypatch, value):
    outside(monkeypatch, value)
    page = run("--help")
    assert page.exit_code == 0
    assert "Cannot be loaded" in page.stdout
    done = run("plugged")
    assert done.exit_code == 2
    assert "could not be loaded" in done.stderr
    assert value in done.stderr


def test_a_name_is_used_once():
    register(count)
    with pytest.raises(cl.InputError, match="another name"):
        register(count)
    with pytest.raises(cl.InputError, match="click command"):
        register(lambda: None)
