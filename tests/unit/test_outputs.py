"""Files that are written whole, and an output that outlives its reader."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.process.outputs import SteadyOutput, write_whole
from pytest_nfvperf.cli.main import main
from tests.sample_run import write_sample

ROOT = Path(__file__).parents[2]


def refusing(name, error):
    def refuse(*told, **named):
        raise OSError(error, os.strerror(error), name)

    return refuse


def test_a_file_takes_the_old_ones_place_with_its_mode(tmp_path):
    path = tmp_path / "page"
    path.write_text("old")
    path.chmod(0o640)

    write_whole(path, "ü")

    assert (path.read_bytes(), path.stat().st_mode & 0o777) == ("ü".encode(), 0o640)
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_link_points_at_is_written(tmp_path):
    (tmp_path / "link").symlink_to("target")

    write_whole(tmp_path / "link", b"new")

    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"new"


def test_what_is_no_file_of_one_name_is_written_into(tmp_path):
    """Steps: write to a FIFO, to a device, to one of two names of a file. Verify: each is what it was."""
    fifo, device, one, two = (tmp_path / name for name in ("fifo", "device", "one", "two"))
    os.mkfifo(fifo)
    device.symlink_to("/dev/null")
    one.write_text("old")
    two.hardlink_to(one)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)

    for path in (fifo, device, one):
        write_whole(path, "new")

    assert os.read(reader, 9) == b"new"
    os.close(reader)
    assert (fifo.is_fifo(), device.is_char_device(), two.read_text()) == (True, True, "new")
    assert {*tmp_path.iterdir()} == {fifo, device, one, two}
    with pytest.raises(IsADirectoryError):
        write_whole(tmp_path, "new")


def test_the_file_of_somebody_else_stays_theirs(tmp_path):
    path = tmp_path / "page"
    path.write_text("old")
    os.chown(path, 12345, 23456)
    write_whole(path, "new")
    assert (path.read_text(), path.stat().st_uid, path.stat().st_gid) == ("new", 12345, 23456)


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "file"])
def test_standard_output_is_not_begun_anew(tmp_path, name):
    code = "import sys; from pathlib import Path; from pytest_nfvperf.adapters.process.outputs import write_whole\n"
    code += "print('before'); write_whole(Path(sys.argv[1]), 'page\\n'); print('after')"
    with (tmp_path / "file").open("w") as output:
        subprocess.run([sys.executable, "-c", code, name], cwd=tmp_path, stdout=output, check=True)
    assert (tmp_path / "file").read_text() == "before\npage\nafter\n"


def test_what_cannot_be_a_directory_is_named_before_anything_is_measured(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert main(["judge", "--results", str(tmp_path / "file"), "--", "nothing"]) == 125
    said = capsys.readouterr().out
    assert "Not a directory" in said
    assert "a fault of nfvperf" not in said
    with pytest.raises(SystemExit):
        main(["history", "show", "--output", "-"])
    assert "write /dev/stdout, or ./-" in capsys.readouterr().err


@pytest.mark.parametrize("error", [errno.EBUSY, errno.EXDEV, errno.EPERM])
def test_a_file_that_cannot_be_replaced_is_written_in_place(tmp_path, monkeypatch, error):
    path = tmp_path / "page"
    path.write_text("old")
    monkeypatch.setattr(os, "replace", refusing("page", error))

    write_whole(path, "new")

    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "page"
    path.write_text("old")
    monkeypatch.setattr(os, "replace", refusing("page", errno.ENOSPC))

    with pytest.raises(OSError, match="No space left on device"):
        write_whole(path, "new")

    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


class Full(io.StringIO):
    def write(self, text):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_an_output_that_refuses_is_written_to_no_more():
    output = SteadyOutput(Full())

    assert output.write("one") == 3
    output.writelines(["two", "three"])
    output.flush()

    assert output.failed.errno == errno.ENOSPC


def test_an_output_that_somebody_closed():
    closed = io.StringIO()
    closed.close()
    output = SteadyOutput(closed)

    output.write("one")

    assert (type(output.failed), output.isatty()) == (ValueError, False)


@pytest.mark.parametrize(
    ("reader", "command"), [("head -1", "schema evidence"), ("true", "schema evidence"), ("true", "--version")]
)
def test_a_reader_who_has_seen_enough_changes_no_status(reader, command):
    """Of a command whose output fills the pipe, and of one that writes only at its end."""
    with subprocess.Popen(reader.split(), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as reading:
        done = subprocess.run(
            [sys.executable, "-m", "pytest_nfvperf", *command.split()],
            cwd=ROOT,
            stdout=reading.stdin,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, b"")


def test_an_output_on_a_full_disk_is_said_and_a_fault(tmp_path):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "pytest_nfvperf.cli.main", "schema", "sla"],
            cwd=ROOT,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (1, "nfvperf: the output cannot be written: No space left on device\n")


COMMANDS = (
    ["doctor"],
    ["suites"],
    ["ovs", "list"],
    ["schema", "evidence"],
    ["show", "missing ≥ \udce9"],
    ["report", "missing ≥ \udce9"],
    ["datasheet", "missing ≥ \udce9"],
    ["export", "missing ≥ \udce9"],
    ["judge", "missing ≥ \udce9"],
    ["compare", "missing ≥ \udce9", "another \x1b"],
    ["history", "show", "missing ≥ \udce9"],
    ["profile", "missing ≥ \udce9"],
)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_every_command_writes_to_an_output_that_knows_ascii_alone(command, monkeypatch):
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="ascii") for _ in range(2))
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    with suppress(SystemExit):  # argparse's way to say a usage error
        main(command)
    written = out.buffer.getvalue() + err.buffer.getvalue()
    assert written.strip()
    assert b"\x1b" not in written
    assert b"Traceback" not in written


def test_a_page_that_cannot_be_written_is_said_in_a_line(tmp_path, capsys):
    write_sample(tmp_path)
    (tmp_path / "file").write_text("")

    assert main(["datasheet", str(tmp_path), "--output", str(tmp_path / "file" / "datasheet.html")]) == 1

    assert capsys.readouterr().err == f"nfvperf: File exists: {tmp_path / 'file'}\n"
