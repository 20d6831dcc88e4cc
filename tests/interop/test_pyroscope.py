"""Pyroscope's own clients push to us: all that they sent arrives, with its labels, and adds up to what pprof's library says of it."""
import collections
import json
import subprocess

import pyroscope
import pytest
from programs import DATA, PATIENCE, Gateway, running, wait_for

FILES = [DATA / "pprof" / f"go-{kind}.pb.gz" for kind in ("cpu", "heap")]


@pytest.fixture()
def gateway(tmp_path):
    config = (f"exporters: {{ file/raw: {{ path: {tmp_path}/raw.jsonl, format: json }} }}\n"
              "profiles: { keep: 100%, exporters: [file/raw] }\n")
    with running(Gateway(config=config)) as started:
        yield started


def arrived(tmp_path):
    """What went downstream: totals by type and unit, and the resources' attributes."""
    totals, resources = collections.Counter(), []
    file = tmp_path / "raw.jsonl"
    for line in file.read_text().split("\n")[:-1] if file.exists() else []:
        request = json.loads(line)
        strings = request["dictionary"]["stringTable"]
        for resource in request["resourceProfiles"]:
            resources.append({a["key"]: a["value"].get("stringValue") for a in resource["resource"].get("attributes", [])})
            for scope in resource["scopeProfiles"]:
                for profile in scope["profiles"]:
                    type = profile["sampleType"]
                    name = strings[type.get("typeStrindex", 0)] + "/" + strings[type.get("unitStrindex", 0)]
                    totals[name] += sum(int(v) for sample in profile.get("samples", []) for v in sample["values"])
    return dict(totals), resources


def pushed(gateway, tmp_path, sent):
    """Waits until as much is downstream as was sent."""
    expected = pyroscope.totals(sent, tmp_path)
    assert any(expected.values()), expected
    wait_for(lambda: sum(arrived(tmp_path)[0].values()) == sum(expected.values()), f"all of {expected} is downstream")
    totals, resources = arrived(tmp_path)
    assert {k: v for k, v in totals.items() if v} == {k: v for k, v in expected.items() if v}
    return expected, resources


@pytest.mark.parametrize("client, seconds, service, types", [
    ("go", 3, "go.sdk", {"samples/count", "cpu/nanoseconds", "alloc_space/bytes", "inuse_space/bytes", "contentions/count", "delay/nanoseconds"}),
    ("python", 12, "python.sdk", {"cpu/nanoseconds"}),
    ("node", 4, "node.sdk", {"wall/nanoseconds", "cpu/nanoseconds", "inuse_space/bytes"}),
])
def test_an_sdk_pushes(gateway, tmp_path, client, seconds, service, types):
    command = getattr(pyroscope, client)()
    with pyroscope.between(gateway.ports[0]) as (url, seen):
        arguments = ["sdk", url, seconds] if client == "go" else [url, seconds]
        done = subprocess.run([str(a) for a in [*command, *arguments]], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert seen and {status for *_, status in seen} == {200}, [(path, status) for path, *_, status in seen]
    sent = [profile for path, headers, body, _ in seen for profile in pyroscope.profiles_of(path, headers, body) if profile]
    expected, resources = pushed(gateway, tmp_path, sent)
    assert types <= set(expected), expected
    for resource in resources:
        assert resource["service.name"] == service and resource["region"] == "eu", resource
        assert not any(key.startswith("__") for key in resource)
        assert client != "go" or (resource["pod"] == "a b" and resource["pyroscope_spy"] == "gospy")


@pytest.mark.parametrize("how", ["connect", "gzip", "json", "grpc"])
def test_the_generated_client_pushes(gateway, tmp_path, how):
    """Alloy's way: pyroscope.write calls the same client, over Connect."""
    done = subprocess.run([*pyroscope.go(), "push", f"http://127.0.0.1:{gateway.ports[0]}", how, *FILES], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    _, resources = pushed(gateway, tmp_path, [file.read_bytes() for file in FILES])
    assert resources == [{"service.name": "pushed", "number": str(i)} for i in range(2)]
    (tmp_path / "bad").write_bytes(b"no profile")
    done = subprocess.run([*pyroscope.go(), "push", f"http://127.0.0.1:{gateway.ports[0]}", how, FILES[0], tmp_path / "bad"],
                          capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 1 and "invalid_argument" in done.stderr, done.stderr
    assert gateway.total("profgate_requests_total", outcome="accepted") == 1, "of two series, one of them bad, none is counted"
