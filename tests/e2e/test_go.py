"""What goroutines say of their work (runtime/pprof's labels) is with their samples."""
import os
import shutil
import subprocess

import profiles
import pytest
from profiles import Receiver, are_named, busy, judged, nearly_all, profsend, started
from programs import ROOT, Process, running, wait_for

SOURCE = ROOT / "tests/runtimes/labels.go"
RELEASES = ["1.21.13", "1.22.12", "1.23.12", "1.24.11", "1.25.5", "1.26.8", "1.27.4"]
SHORT = (("path", "/äpfel"), ("user", "bob"))
SOME = tuple((f"label-{i:02}", str(i % 10) * 30) for i in range(12))
LONG = (("k" * 62, "v" * 126), ("user", "carol"))


def of_chain(program):
    """A thousand hits of a program's first thread that spins."""
    process = Process([program])
    receiver = profiles.seen(process, 1000, first=0.5)
    return {stack: n for stack, n in receiver.of(process.pid).items() if stack.names[0].endswith("spin") or stack.names[0].startswith("0x")}


def has_each(hits_of):
    often = [pairs for pairs, hits in dict(hits_of).items() if hits >= 20]
    first = {pairs[0][0][0] if pairs else "" for pairs in often}  # of a key: k…, label…, path, user
    return first == {"", "k", "l", "p"} and LONG in often


def compiler():
    path = shutil.which("go") or "/usr/local/go/bin/go"
    if not os.path.exists(path):
        pytest.skip("no go here")
    return path


def build(source, program, flags, folder, **environment):
    shutil.copy(source, folder)
    (folder / "go.mod").write_text("module labels\ngo 1.21\n")
    built = subprocess.run([compiler(), "build", *flags, "-o", program, "."], cwd=folder, env=dict(os.environ, **environment),
                           capture_output=True, text=True)
    if built.returncode and "GOTOOLCHAIN" in environment:
        pytest.skip(f"{environment['GOTOOLCHAIN']} is not to be had: {built.stderr.strip()[-200:]}")
    assert built.returncode == 0, built.stderr


def seen(program, flags, folder, **environment):
    build(SOURCE, program, flags, folder, **environment)
    with Receiver() as receiver, running(Process([program])) as process:
        busy(process)
        sender = profsend(receiver, "--pid", process.pid)
        with running(sender):
            started(sender)
            wait_for(lambda: has_each(receiver.labels[process.pid]), "each of them")
            assert sender.stop() == 0, sender.log()
        return receiver.labels[process.pid]


def check(labels, is_map):
    assert labels[SHORT] >= 20
    assert labels[LONG] >= 20
    many = [pairs for pairs in labels if len(pairs) > 2 and pairs[0][0].startswith("k")]
    assert all(key == f"k{int(value):02}" for pairs in many for key, value in pairs)
    assert all(len(pairs) == 16 for pairs in many) or is_map, many
    some = {pairs for pairs in labels if pairs and pairs[0][0].startswith("label")}
    assert some == {SOME} or is_map and all(set(pairs) < set(SOME) for pairs in some)
    assert set(labels) - set(many) - some == {(), SHORT, LONG}, labels


@pytest.mark.parametrize("flags", [(), ("-ldflags=-s -w", "-buildmode=pie")], ids=["plain", "stripped"])
def test_labels_are_with_samples(tmp_path, flags):
    check(seen(tmp_path / "labels", flags, tmp_path), is_map=False)


@pytest.mark.soak
@pytest.mark.parametrize("release", RELEASES)
def test_what_the_system_s_linker_made_is_seen_whole(tmp_path, release):
    """Position independent and stripped, as distributions ship Go's programs: before 1.26 nothing says where Go's tables are."""
    program = tmp_path / "pg-chain"
    build(ROOT / "tests/unwind/chain.go", program, ("-buildmode=pie", "-ldflags=-s -w -linkmode=external"), tmp_path, GOTOOLCHAIN=f"go{release}")
    receiver = of_chain(program)
    chain = tuple(f"main.{name}" for name in ("spin", "chain_c", "chain_b", "chain_a", "main"))
    hits, exact, complete, named, odd = judged(receiver, lambda s: (s.names[:5] == chain, s.incomplete is None, are_named(s.names)))
    assert min(exact, complete, named) >= nearly_all(0.98, hits), (hits, exact, complete, named, odd[:5])


@pytest.mark.soak
@pytest.mark.parametrize("release", RELEASES)
def test_each_release_has_them_where_it_is_said(tmp_path, release):
    check(seen(tmp_path / "labels", (), tmp_path, GOTOOLCHAIN=f"go{release}"), is_map=int(release.split(".")[1]) < 24)
