"""Pyroscope's own clients push to us: all that they sent arrives, with its labels, and adds up to what pprof's library says of it."""
import collections
import json
import subprocess
import urllib.request

import pyroscope
import pytest
from programs import DATA, PATIENCE, Gateway, captures, running, wait_for
from test_access import CAROL, basic

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
    if "wall/nanoseconds" in types:
        seconds = expected["wall/nanoseconds"] / 1e9
        wait_for(lambda: abs(gateway.total("profile_wall_time_seconds_total") - seconds) < 1e-6, f"{seconds} s of wall-clock time counted")
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


def rows_of(tmp_path):
    """What is downstream of parca-agent's rows: each sample's value, with all that is known of it."""
    rows = []
    for line in (tmp_path / "raw.jsonl").read_text().split("\n")[:-1]:
        request = json.loads(line)
        d = request["dictionary"]
        strings, attributes = d["stringTable"], d["attributeTable"]

        def table(name, i):
            return d[name][i] if i else {}

        def all_of(entry):
            pairs = [(strings[attributes[i]["keyStrindex"]], attributes[i]["value"]) for i in entry.get("attributeIndices", [])]
            return {key: str(value.get("stringValue", value.get("intValue"))) for key, value in pairs}

        def frame(i):
            location = table("locationTable", i)
            mapping = table("mappingTable", location.get("mappingIndex", 0))
            line = location.get("lines", [{}])[0]
            function = table("functionTable", line.get("functionIndex", 0))
            assert len(location.get("lines", [])) <= 1
            return (strings[mapping.get("filenameStrindex", 0)], all_of(mapping), strings[function.get("nameStrindex", 0)],
                    strings[function.get("filenameStrindex", 0)], int(location.get("address", 0)), int(line.get("line", 0)),
                    all_of(location)["profile.frame.type"])

        for resource in request["resourceProfiles"]:
            whose = {a["key"]: a["value"]["stringValue"] for a in resource["resource"].get("attributes", [])}
            for scope in resource["scopeProfiles"]:
                for profile in scope["profiles"]:
                    kind = [strings[profile[of].get(part, 0)] for of in ("sampleType", "periodType") for part in ("typeStrindex", "unitStrindex")]
                    start, lasts = int(profile["timeUnixNano"]), int(profile["durationNano"])
                    for sample in profile["samples"]:
                        stack = [frame(i) for i in table("stackTable", sample.get("stackIndex", 0)).get("locationIndices", [])]
                        link = table("linkTable", sample.get("linkIndex", 0))
                        for value, time in zip(sample["values"], sample["timestampsUnixNano"], strict=True):
                            assert start <= int(time) < start + lasts
                            rows.append((int(time), int(value), kind, int(profile.get("period", 0)), scope["scope"]["name"], whose,
                                         all_of(sample), link.get("traceId", ""), link.get("spanId", ""), stack))
    return sorted(rows, key=lambda row: row[0])


def row_of(sent):
    """The same of a row as it was sent."""
    def frame(f):
        key = "gnu" if len(f["BuildID"]) == 40 else "htlhash"
        return (f["File"], {f"process.executable.build_id.{key}": f["BuildID"]} if f["BuildID"] else {}, f["Function"], f["Source"],
                f["Address"], f["Line"], f["Type"])
    labels = sent["Labels"]
    kind = [{"wallclock": "off_cpu"}.get(sent["Type"], sent["Type"]), sent["Unit"], sent["PeriodType"], sent["PeriodUnit"]]
    whose = {"host.name": labels["node"], "process.executable.name": labels["comm"], **({"region": labels["region"]} if "region" in labels else {})}
    own = {"thread.id": labels["thread_id"], "thread.name": labels["thread_name"], "cpu.logical_number": labels["cpu"]}
    return (sent["Time"], sent["Value"], kind, sent["Period"], sent["Producer"], whose, own, labels.get("trace_id", ""), labels.get("span_id", ""),
            [frame(f) for f in sent["Stack"]])


@pytest.mark.parametrize("how, count", [("lz4", 1500), ("zstd", 60), ("plain", 1), ("lz4", 0)])
def test_parca_agent_pushes_arrow(gateway, tmp_path, how, count):
    """Its schema v2, by the library that it writes with: every row arrives with its time, stack, labels and span."""
    def push(how, count):
        return subprocess.run([*pyroscope.go(), "arrow", f"http://127.0.0.1:{gateway.ports[0]}", str(how), str(count)], capture_output=True, text=True, timeout=PATIENCE)
    done = push(how, count)
    assert done.returncode == 0, done.stderr
    sent = [row_of(row) for row in json.loads(done.stdout)]
    if sent:
        wait_for(lambda: (tmp_path / "raw.jsonl").exists() and len(rows_of(tmp_path)) == len(sent), "all rows are downstream")
        assert rows_of(tmp_path) == sent
        cpu = sum(row[3] for row in sent if row[2][2] == "cpu" and row[9])  # a stack of nothing is of no runtime
        assert gateway.total("profile_cpu_time_seconds_total") == pytest.approx(cpu / 1e9)
    if how != "zstd":
        return
    whole = subprocess.run([*pyroscope.go(), "arrow", tmp_path / "x", how, "60"], capture_output=True, timeout=PATIENCE)
    stream = (tmp_path / "x").read_bytes()
    assert whole.returncode == 0
    for wrong, says in ((stream[:-20], "cut short"), (stream[8:], "does not begin as one"), (stream.replace(b"stacktrace", b"stacktrack"), "no column stacktrace")):
        (tmp_path / "wrong").write_bytes(wrong)
        done = push(tmp_path / "wrong", 0)
        assert done.returncode == 1 and "invalid_argument" in done.stderr and says in done.stderr, done.stderr
    assert gateway.total("profgate_requests_total", outcome="accepted") == 1


@pytest.fixture(scope="module")
def looked(tmp_path_factory):
    """A gateway that keeps stacks and asks who comes, with all captures in it."""
    users = tmp_path_factory.mktemp("look") / "users"
    users.write_text(CAROL)
    with running(Gateway(config=f"look: {{ memory: 64MiB }}\nadmin: {{ auth: {{ htpasswd_file: {users} }} }}\n")) as started:
        for file in captures("ebpf-*.pb"):
            assert started.post(file.read_bytes())[0] == 200

        def seen():
            request = urllib.request.Request(f"http://127.0.0.1:{started.admin}/api/v1/look/status", headers=basic("carol", "secret"))
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return json.load(answer)["seen"]
        samples = [0, 0]
        wait_for(lambda: samples.append(seen()) or samples[-1] > 0 and samples[-1] == samples[-2] == samples[-3], "the stacks are there")
        yield started


@pytest.mark.parametrize("how", ["connect", "json", "gzip"])
def test_grafana_s_client_reads_stacks(looked, how):
    """As its data source: types, labels, series, flame graphs through its levelsToTree, and what it is told where there is nothing."""
    def query(selector, *user):
        done = subprocess.run([*pyroscope.go(), "query", f"http://127.0.0.1:{looked.admin}", how, selector, *user],
                              capture_output=True, text=True, timeout=PATIENCE)
        return done.returncode, done.stderr or json.loads(done.stdout)

    code, said = query("{}")
    assert code == 1 and "unauthenticated" in said, "the client says what the address answers"
    code, all = query("{}", "carol", "secret")
    assert code == 0, all
    assert all["type"] == ["process_cpu", "cpu", "nanoseconds", "cpu", "nanoseconds"] and all["stats"]
    assert "service_name" in all["names"] and not [name for name in all["names"] if name.startswith("__")]
    assert {one.get("service_name") for one in all["sets"] if one["__profile_type__"].startswith("process_cpu:")} >= set(all["services"])
    total = all["flamegraph"]["total"]
    assert total == all["flamegraph"]["self"] == all["small"]["self"] == all["small"]["total"] == all["pprof"] == all["merged"] > 0
    assert all["flamegraph"]["lost"] == all["small"]["lost"] == 0 and all["small"]["nodes"] < 120 < all["flamegraph"]["nodes"]
    assert abs(sum(all["series"].values()) - total) < total * 1e-9 and set(all["series"]) - {""} == set(all["services"])
    assert 0 < all["site"] <= total and all["diff"] == [total, total, 2 * total]
    assert all["errors"] == ["unimplemented", "invalid_argument", "unimplemented", "invalid_argument"]
    service = max(all["services"], key=all["series"].get)
    code, one = query(f'{{service_name="{service}"}}', "carol", "secret")
    assert code == 0 and one["flamegraph"]["total"] == round(all["series"][service]) and set(one["series"]) == {service}
    assert one["diff"] == [one["flamegraph"]["total"], total, one["flamegraph"]["total"] + total]
