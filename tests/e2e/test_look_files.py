"""`profgate look`: files on the page of a gateway, without one."""
import json
import re
import signal
import subprocess
import urllib.request

import pytest
from programs import BUILD, DATA, PATIENCE, Process, running, wait_for


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
    flame = wait_for(lambda: (f := json.loads(get(f"{base}/api/v1/look/flame?from={end - span}&to={end}&nodes=65536"))) and f["seen"] > 2000 and f,
                     "both files in the store")
    counted = json.loads(subprocess.run([BUILD / "profgate", "count", "--json", DATA / "connector/ebpf-go-0003.pb", DATA / "pprof/go-cpu.pb.gz"],
                                        capture_output=True, text=True, timeout=PATIENCE, check=True).stdout)
    total = sum(point.get("asDouble", 0) for resource in counted["metrics"]["resourceMetrics"] for scope in resource["scopeMetrics"]
                for metric in scope["metrics"] if metric["name"] == "profile.cpu.time" for point in metric["sum"]["dataPoints"])
    assert flame["p"] == 1 and flame["node"]["total"][0] / 1e9 == pytest.approx(total, rel=1e-6) and total > 1
    process.process.send_signal(signal.SIGINT)
    assert process.wait() == 0


@pytest.mark.parametrize("arguments, code, words", [
    ([], 2, "name a captured request"), (["/no/such/file"], 1, "/no/such/file"), (["--nonsense"], 2, "nonsense"),
    (["--listen", "127.0.0.1:1x", DATA / "pprof/go-cpu.pb.gz"], 3, "127.0.0.1:1x"),
])
def test_what_is_wrong_is_said(arguments, code, words):
    done = subprocess.run([BUILD / "profgate", "look", *arguments], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == code and words in done.stderr and done.stdout == "", done
