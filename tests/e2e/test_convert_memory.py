"""What a conversion has in memory at once, and what becomes of it when a file is not what it was, or the disk is full."""
import os
import random
import re
import resource
import subprocess

import pytest
from handmade import field, varint
from programs import BUILD, DATA, PATIENCE

HIGH = bytes(0x80 | i for i in range(256))  # the first byte of a varint of two
LOW = bytes(i & 0x7F or 1 for i in range(256))


def write_profile(path, samples, stacks):
    """A CPU profile of that many samples with one of so many stacks of 36 locations and two values, one in three with a label."""
    rng, size = random.Random(1), 72
    half = stacks * size // 2
    ids = bytearray(2 * half)
    ids[0::2], ids[1::2] = rng.randbytes(half).translate(HIGH), rng.randbytes(half).translate(LOW)
    strings = ["", "samples", "count", "cpu", "nanoseconds", "endpoint", *(f"/api/v1/thing/{i}" for i in range(100))]
    first = len(strings)
    strings += [f"github.com/acme/service/internal/package{i % 97}.(*Type{i % 331}).Method{i}" for i in range(8000)]
    labels = [b"", b"", *(field(3, field(1, 5) + field(2, 6 + i)) for i in range(100))]
    values = [field(2, varint(i) + varint(i * 10_000_000)) for i in range(1, 10)]
    stack = varint(1 << 3 | 2) + varint(size)
    out = [field(1, field(1, 1) + field(2, 2)), field(1, field(1, 3) + field(2, 4))]
    for i in range(samples):
        at = i % stacks * size
        out.append(field(2, stack + ids[at:at + size] + values[i % 9] + (labels[2 + i % 100] if i % 3 == 0 else b"")))
    out += [field(3, field(1, 1) + field(2, 0x400000) + field(3, 0x2000000))]
    out += [field(4, field(1, i) + field(2, 1) + field(3, 0x400000 + i * 37) + field(4, field(1, 1 + i % 8000) + field(2, i % 3000)))
            for i in range(1, 16384)]
    out += [field(5, field(1, i + 1) + field(2, first + i) + field(3, first + i)) for i in range(8000)]
    out += [field(6, text.encode()) for text in strings]
    path.write_bytes(b"".join(out))
    return path


def peak(*arguments):
    """Bytes in memory at once of a conversion to standard output: asked for while it waits for us to read (ru_maxrss would have what
    this very process has)."""
    child = subprocess.Popen([BUILD / "profgate", "convert", *arguments, "-"], stdout=subprocess.PIPE)
    most, n = 0, 0
    while True:
        with open(f"/proc/{child.pid}/status", encoding="utf-8") as status:
            found = re.search(r"^VmHWM:\s+(\d+) kB", status.read(), re.M)
        most = max(most, int(found.group(1)) * 1024 if found else 0)
        piece = os.read(child.stdout.fileno(), 1 << 16)
        if not piece:
            break
        n += len(piece)
    child.stdout.close()
    assert child.wait(PATIENCE) == 0
    return most, n


needs_a_plain_build = pytest.mark.skipif(BUILD.name != "build", reason="a sanitizer has memory of its own")


@needs_a_plain_build
def test_a_pprof_is_never_in_memory_whole(tmp_path):
    """The program itself has 7 MB of the 30, what it knows of 215,000 samples and their stacks the rest."""
    file = write_profile(tmp_path / "large.pb", 215_000, 215_000)
    assert file.stat().st_size > 19e6
    most, n = peak("--to", "otlp", file)
    assert n > 19e6 and most < 30e6, most


@needs_a_plain_build
def test_a_pprof_is_never_in_memory_whole_when_it_is_written_either(tmp_path):
    """Of 6 MB of OTLP 22 MB of pprof are made, 19 packed; what is known of 500,000 samples takes 14."""
    file, otlp = write_profile(tmp_path / "large.pb", 250_000, 1000), tmp_path / "large.otlp"
    subprocess.run([BUILD / "profgate", "convert", file, otlp], check=True, timeout=PATIENCE)
    most, n = peak("--to", "pprof", otlp)
    assert n > 18e6 and most < 36e6, most


def shorter(file):
    os.truncate(file, 4096)


def rewritten(file):
    """As `cp other FILE` does."""
    n = file.stat().st_size
    with open(file, "r+b") as f:
        f.truncate(n // 4)
        f.seek(0, os.SEEK_END)
        f.write(b"Z" * (n - n // 4))


@pytest.mark.parametrize("change", [shorter, rewritten])
def test_a_pprof_that_is_changed_while_it_is_read_is_said(tmp_path, change):
    """Its stacks are looked at again when they are written; until somebody reads what was written before, they are not."""
    file = write_profile(tmp_path / "cut.pb", 20_000, 20_000)
    child = subprocess.Popen([BUILD / "profgate", "convert", "--to", "otlp", file, "-"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert os.read(child.stdout.fileno(), 1)
    change(file)
    _, said = child.communicate(timeout=PATIENCE)
    assert child.returncode == 1 and b"was changed while it was read" in said, said


def test_standard_input_is_read_to_its_end(tmp_path):
    file = tmp_path / "in.pb"
    file.write_bytes((DATA / "pprof/go-heap.pb.gz").read_bytes())
    with open(file, "rb") as stdin:
        done = subprocess.run([BUILD / "profgate", "convert", "--to", "folded", "-", tmp_path / "out"], stdin=stdin, timeout=PATIENCE)
        assert done.returncode == 0 and stdin.read() == b""


@pytest.mark.parametrize("opened", ["r+b", "ab"])
@pytest.mark.parametrize("name", ["-", None])
def test_standard_output_that_is_the_input_is_left_as_it_is(tmp_path, opened, name):
    file = tmp_path / "same.pb"
    file.write_bytes((DATA / "pprof/go-heap.pb.gz").read_bytes())
    before = file.read_bytes()
    with open(file, "rb") as stdin, open(file, opened) as stdout:
        done = subprocess.run([BUILD / "profgate", "convert", "--to", "otlp", name or file, "-"], stdin=stdin, stdout=stdout,
                              stderr=subprocess.PIPE, timeout=PATIENCE)
    assert done.returncode == 1 and b"standard output is read, too" in done.stderr, done.stderr
    assert file.read_bytes() == before


def convert_with_room(n, *arguments):
    """Where no file becomes longer than that, as on a disk that is full: Python ignores SIGXFSZ, and its child is to do so, too."""
    return subprocess.run([BUILD / "profgate", "convert", *arguments], capture_output=True, timeout=PATIENCE, restore_signals=False,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (n, n)))


@pytest.mark.parametrize("to", ["otlp", "json", "pprof"])
@pytest.mark.parametrize("was_there", [False, True])
def test_what_could_not_be_written_whole_is_not_there(tmp_path, to, was_there):
    """Neither in pieces nor at once; a file that only has another name of ours stays, with nothing in it."""
    out, other = tmp_path / "out", tmp_path / "other"
    source = next((DATA / "connector").glob("ebpf-*.pb")) if to == "pprof" else DATA / "pprof/go-cpu.pb.gz"
    if was_there:
        other.write_bytes(b"what was there")
        out.symlink_to(other)
    done = convert_with_room(8192, "--to", to, source, out)
    assert done.returncode == 1 and b"cannot write" in done.stderr, done.stderr
    assert not out.exists() or (was_there and other.read_bytes() == b"")


def test_requests_that_were_written_stay_where_the_next_one_has_no_room(tmp_path):
    heap = DATA / "pprof/go-heap.pb.gz"
    one = subprocess.run([BUILD / "profgate", "convert", "--to", "json", heap, "-"], capture_output=True, timeout=PATIENCE).stdout
    (tmp_path / "two.jsonl").write_bytes(one + b"\n" + one)
    done = convert_with_room(len(one) * 3 // 2, "--to", "json", tmp_path / "two.jsonl", tmp_path / "out")
    assert done.returncode == 1 and b"cannot write" in done.stderr, done.stderr
    assert (tmp_path / "out").read_bytes() == one
