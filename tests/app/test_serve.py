"""The command `cutlearn serve`: an address, a page behind it, an orderly end."""

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import pytest
from click.testing import CliRunner

from cutlearn.app.cli import main
from served import make_images


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_it_is_stopped(tmp_path, number):
    make_images(tmp_path / "images", 2)
    command = [sys.executable, "-m", "cutlearn", "serve", "--images", "images", "--no-browser"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    try:
        lines = [process.stdout.readline() for _ in range(2)]
        assert "2 images in images" in lines[0]
        address = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", lines[1])[0]
        jar = urllib.request.HTTPCookieProcessor()
        page = urllib.request.build_opener(jar).open(address, timeout=30).read()
        assert b"<title>cutlearn</title>" in page
        with pytest.raises(urllib.error.HTTPError, match="403") as refused:
            urllib.request.urlopen(address.split("?")[0], timeout=30)
        refused.value.close()
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0, err
    assert err == ""
    assert out.endswith("ended: 0 masks in masks\n")


def told(*options):
    result = CliRunner().invoke(main, ["serve", "--no-browser", *options])
    return result.exit_code, result.output


def test_what_cannot_be_is_told(tmp_path):
    code, output = told("--images", str(tmp_path / "none"))
    assert code == 2
    assert "there is no such folder" in output
    make_images(tmp_path / "images", 1)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, output = told("--images", str(tmp_path / "images"), "--port", port)
    assert code == 2
    assert "--port" in output
    code, output = told("--images", str(tmp_path / "images"), "--fit", "'")
    assert (code, "--fit" in output) == (2, True)


def test_no_other_host_can_be_asked_for(tmp_path):
    code, output = told("--host", "0.0.0.0")
    assert code == 2
    assert "--host" in output
