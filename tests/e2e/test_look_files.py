"""`profgate look`: files on the page of a gateway, without one."""
import json
import os
import re
import signal
import subprocess
import urllib.request

import pytest
from programs import BUILD, DATA, PATIENCE, Process, captures, running, wait_for


@pytest.fixture()
def looked():
    files = [DATA / "connector/ebpf-go-0003.pb", DATA / "pprof/go-cpu.pb.gz"]
    with running(Process([BUILD / "profgate", "look", *files])) as process:
        url = wait_for(lambda: re.search(r"http://\S+\n", process.log()) or not process.alive(), "an address")[0].strip()
        yield process, *url.split("/#")


def get(url, accept="*/*"):
    with urllib.request.urlopen(urllib.request.Request(url, headers={"Accept": accept}), timeout=PATIENCE) as answer:
        return answer.read().decode()


def test_files_are_shown_with_all_their_time(looked):
    process, base, view = looked
    end, span = map(int, re.fullmatch(r"end=(\d+)&span=(\d+)", view).groups())
    assert get(base + "/", "text/html").startswith("<!doctype html>")
    flame = json.loads(get(f"{base}/api/v1/look/flame?from={end - span}&to={end}&nodes=65536"))
    counted = json.loads(subprocess.run([BUILD / "profgate", "count", "--json", DATA / "connector/ebpf-go-0003.pb", DATA / "pprof/go-cpu.pb.gz"],
                                        capture_output=True, text=True, timeout=PATIENCE, check=True).stdout)
    total = sum(point.get("asDouble", 0) for resource in counted["metrics"]["resourceMetrics"] for scope in resource["scopeMetrics"]
                for metric in scope["metrics"] if metric["name"] == "profile.cpu.time" for point in metric["sum"]["dataPoints"])
    assert flame["p"] == 1 and flame["node"]["total"][0] / 1e9 == pytest.approx(total, rel=1e-6) and total > 1
    process.process.send_signal(signal.SIGINT)
    assert process.wait() == 0


@pytest.mark.parametrize("listen", [":0", "*:0", "127.0.0.1:0"])
def test_the_address_that_is_said_opens_in_a_browser(listen):
    with running(Process([BUILD / "profgate", "look", "--listen", listen, DATA / "pprof/go-cpu.pb.gz"])) as process:
        url = wait_for(lambda: re.search(r"http://\S+\n", process.log()) or not process.alive(), "an address")[0].strip()
        assert get(url.split("#")[0], "text/html").startswith("<!doctype html>")


def test_all_stacks_are_there_when_the_address_is_said():
    """Also of requests that came while the store was busy, whose stacks an earlier one told it."""
    with running(Process([BUILD / "profgate", "look", *(file for file in captures() for _ in range(2))])) as process:
        base = wait_for(lambda: re.search(r"(http://\S+?)/#", process.log()) or not process.alive(), "an address")[1]
        status = json.loads(get(base + "/api/v1/look/status"))
    assert status["seen"] == status["kept"] > 20000 and status["not_kept"] == status["lost"] == 0, status


def test_an_interrupt_while_files_are_read_ends_it(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    with running(Process([BUILD / "profgate", "look", DATA / "pprof/go-cpu.pb.gz", tmp_path / "fifo", tmp_path / "unread"])) as process:
        with open(tmp_path / "fifo", "wb") as fifo:  # it reads: its signals wait for it
            process.process.send_signal(signal.SIGINT)
            fifo.write(b"main;work 7\n")
        assert process.wait() == 0
        assert "/#" not in process.log() and "unread" not in process.log()


@pytest.mark.parametrize("arguments, code, words", [
    ([], 2, "name a captured request"), (["/no/such/file"], 2, "/no/such/file"), (["--nonsense"], 2, "nonsense"),
    (["--listen", "127.0.0.1:1x", DATA / "pprof/go-cpu.pb.gz"], 2, "127.0.0.1:1x"),
    (["empty"], 1, "no samples in these files"), (["deep"], 1, "deep: line 1: more than 65536 frames"),
])
def test_what_is_wrong_is_said(arguments, code, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").touch()
    (tmp_path / "deep").write_text(";".join("f" * 70000) + " 1\n")  # more frames than a stack may have
    done = subprocess.run([BUILD / "profgate", "look", *arguments], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == code and words in done.stderr and done.stdout == "", done
