"""GET /api/v1/look: the stacks behind the numbers, of requests that a running gateway has counted."""
import gzip
import http.client
import json
import os
import shutil
import subprocess
import urllib.parse

import pytest
from programs import BUILD, PATIENCE, Gateway, captures, running, wait_for

ON = "look: { memory: 64MiB }\n"
ENDPOINTS = ("types", "services", "labels", "series", "flame", "top", "sandwich", "diff", "pprof", "folded", "rules", "examples", "status")


def ask(gateway, path, headers=None, method="GET", **parameters):
    """(status, headers, body) of an endpoint."""
    connection = http.client.HTTPConnection("127.0.0.1", gateway.admin, timeout=PATIENCE)
    try:
        connection.request(method, f"/api/v1/look/{path}?{urllib.parse.urlencode(parameters, doseq=True)}", headers=headers or {})
        answer = connection.getresponse()
        return answer.status, dict((k.lower(), v) for k, v in answer.getheaders()), answer.read()
    finally:
        connection.close()


def look(gateway, path, **parameters):
    status, _, body = ask(gateway, path, **parameters)
    assert status == 200, body
    return json.loads(body)


def cpu(gateway):
    """Nanoseconds of profile.cpu.time."""
    return round(gateway.total("profile_cpu_time_seconds_total") * 1e9)


def post_all(gateway):
    """All captures; until what the rules counted and what the stacks add up to are one number."""
    for file in captures():
        assert gateway.post(file.read_bytes())[0] == 200
    total = cpu(gateway)
    wait_for(lambda: abs(look(gateway, "flame", nodes=1)["node"]["total"][0] - total) <= 2, f"{total} ns in the store")
    return total


@pytest.fixture(scope="module")
def gateway():
    """One that has counted all captures, and whose store has them."""
    with running(Gateway(config=ON)) as started:
        post_all(started)
        yield started


def test_all_cpu_time_is_in_the_flame(gateway):
    flame, total = look(gateway, "flame", nodes=65536), cpu(gateway)
    assert total > 0 and flame["node"]["total"][0] == pytest.approx(total, abs=2)
    assert flame["p"] == 1 and flame["seen"] == flame["kept"] == look(gateway, "status")["seen"]
    assert sum(flame["node"]["self"]) + sum(flame["node"]["more"]) == flame["node"]["total"][0]
    names = {flame["strings"][i] for i in flame["frame"]["name"]}
    assert {"runtime.goexit", "entry_SYSCALL_64_after_hwframe"} <= names
    _, _, folded = ask(gateway, "folded")
    assert sum(int(line.rsplit(b" ", 1)[1]) for line in folded.splitlines()) == flame["node"]["total"][0]


def test_the_rules_say_of_stacks_what_was_counted(gateway):
    """Asked anew of what is kept, rules that read no attributes say what they counted: metric by metric, label by label."""
    said = look(gateway, "rules", limit=1000)
    assert said["asked"] == said["total"] and said["more"] == 0
    counted = {}
    for line in gateway.get("/metrics").splitlines():
        if line.startswith(("profile_cpu_", "profile_alloc_", "profile_crypto_", "profile_lock_", "profile_serialization_")) and "_seconds_total{" in line:
            name, value = line.split("_seconds_total{")[0], float(line.rsplit("} ", 1)[1].split()[0])
            counted[name] = counted.get(name, 0) + value
    assert len(counted) >= 5
    for name, value in counted.items():
        rows = [r for r in said["rows"] if r["metric"].replace(".", "_") == name]
        assert sum(r["value"] for r in rows) == pytest.approx(value * 1e9, abs=2), name
        for row in rows:
            assert all(r["line"] > 0 and r["file"].endswith(".rules") for r in row["because"])
            assert all(row["stack"][r["frame"]] == r["is"] for r in row["because"] if "frame" in r and r["frame"] < len(row["stack"]))
    kernel = [r for r in said["rows"] if r["metric"] == "profile.cpu.time" and r["labels"]["mode"] == "kernel"]
    flame = look(gateway, "flame", metric="profile.cpu.time", **{"metric.mode": "kernel"})
    assert flame["node"]["total"][0] == sum(r["value"] for r in kernel) > 0
    of_one = look(gateway, "rules", function="runtime.mallocgc")
    assert {r["labels"].get("runtime") for r in of_one["rows"] if r["metric"] == "profile.cpu.time"} == {"go"}
    assert ask(gateway, "top", metric="no.such")[0] == 400


def test_each_endpoint_answers(gateway):
    for path in ENDPOINTS:
        status, headers, body = ask(gateway, path, function="runtime.goexit")
        assert status == 200 and body, (path, body)
        assert headers["cache-control"] == "no-store" and headers["x-content-type-options"] == "nosniff"
        assert ask(gateway, path, function="x", method="HEAD")[::2] == (200, b"")
        assert ask(gateway, path, method="POST")[0] == 405
        assert f"/api/v1/look/{path}" in gateway.get("/")
    status, headers, body = ask(gateway, "flame", headers={"Accept-Encoding": "gzip"})
    assert headers["content-encoding"] == "gzip" and json.loads(gzip.decompress(body))["node"]


def test_below_a_root_there_are_nodes_that_were_left_out(gateway):
    def names(flame):
        return [flame["strings"][flame["frame"]["name"][f]] if f >= 0 else "" for f in flame["node"]["frame"]]
    few = look(gateway, "flame", nodes=6)
    i = next(i for i in range(5, 0, -1) if few["node"]["more"][i] > 0)
    path, k = [], i
    while k > 0:
        path, k = [names(few)[k], *path], few["node"]["parent"][k]
    below, start = look(gateway, "flame", root=path, nodes=len(path) + 4), ";".join([*path, ""]).encode()
    assert names(below)[1 : len(path) + 1] == path and len(names(below)) == len(path) + 4
    lines = [line.rsplit(b" ", 1) for line in ask(gateway, "folded")[2].splitlines()]
    assert below["node"]["total"][0] == sum(int(value) for stack, value in lines if (stack + b";").startswith(start)) > 0


def test_what_is_wrong_is_400_and_said(gateway):
    for parameters in ({"nodes": "x"}, {"from": "never"}, {"query": "{a"}, {"query": '{a=~"("}'}, {"from": "now", "to": "1"}):
        status, _, body = ask(gateway, "flame", **parameters)
        assert status == 400 and json.loads(body)["error"], parameters


def test_a_timeout_that_is_none_is_400_and_names_the_header(gateway):
    for timeout, wanted in (("-1", 400), ("1e3", 400), ("", 400), ("99999999999999999999", 400), ("60000", 200)):
        connection = http.client.HTTPConnection("127.0.0.1", gateway.admin, timeout=PATIENCE)
        connection.request("POST", "/querier.v1.QuerierService/ProfileTypes", b"{}",
                           {"Content-Type": "application/json", "Connect-Timeout-Ms": timeout})
        answer = connection.getresponse()
        said = json.loads(answer.read())
        connection.close()
        assert answer.status == wanted, (timeout, said)
        if wanted == 400:
            assert said["code"] == "invalid_argument" and "Connect-Timeout-Ms" in said["message"]


def test_the_other_host_is_refused(gateway):
    assert ask(gateway, "flame", headers={"Host": "evil.example:80"})[0] == 421


@pytest.mark.skipif(not shutil.which("go"), reason="go is not installed")
def test_go_tool_pprof_reads_it(gateway, tmp_path):
    url = f"http://127.0.0.1:{gateway.admin}/api/v1/look/pprof"
    done = subprocess.run(["go", "tool", "pprof", "-raw", url], capture_output=True, text=True, timeout=PATIENCE,
                          check=False, env={**os.environ, "PPROF_TMPDIR": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    assert "cpu/nanoseconds" in done.stdout and "runtime.goexit" in done.stdout


def test_off_is_off_and_says_why():
    with running(Gateway()) as gateway:
        assert gateway.post(captures()[0].read_bytes())[0] == 200
        assert ask(gateway, "status")[0] == 404
    with running(Gateway("--set", "admin.endpoint=0.0.0.0:0", config=ON)) as gateway:
        assert ask(gateway, "status")[0] == 404
        assert "look is off: " in gateway.log() and "endpoint=0.0.0.0:0" in gateway.log()
    with running(Gateway("--set", "admin.endpoint=0.0.0.0:0", config="look: { memory: 64MiB, expose: true }\n")) as gateway:
        assert look(gateway, "status")["seen"] == 0


def test_what_is_counted_last_before_the_end_frees_all(gateway):
    """Under load, and stopped in the middle of it; a sanitizer's build would tell of what is left."""
    with running(Gateway(config=ON)) as other:
        for file in captures():
            assert other.post(file.read_bytes())[0] == 200
        other.stop()
        assert "stopped" in other.log()


def test_stacks_survive_a_restart_and_are_one_gateway_s(tmp_path):
    config = f"look: {{ memory: 64MiB, storage: {tmp_path}/look }}\n"
    with running(Gateway(config=config)) as first:
        post_all(first)
        before = look(first, "flame")
        file = tmp_path / "second.yaml"
        file.write_text(config)
        done = subprocess.run([BUILD / "profgate", "serve", "--config", file, "--set", "admin.endpoint=127.0.0.1:0", "--listen",
                               "127.0.0.1:0"], capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == 3 and "in use by another process" in done.stderr
        assert first.stop() == 0
    with running(Gateway(config=config)) as second:
        after = look(second, "flame")
        assert after["node"]["total"][0] == before["node"]["total"][0] > 0
        assert sorted(after["strings"]) == sorted(before["strings"])
        assert look(second, "status")["files"] == 1
