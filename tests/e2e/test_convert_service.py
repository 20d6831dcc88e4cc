"""POST /v1/convert and the query string of POST /v1/pprof: the same profiles in another format, at once."""
import gzip
import json
import socket
import struct
import subprocess

import pytest
from programs import BUILD, DATA, PATIENCE, Gateway, captures, running, wait_for

CPU = (DATA / "pprof/go-cpu.pb.gz").read_bytes()
LEGACY = b"heap profile: 1: 100 [5: 500] @ heap/1048576\n1: 100 [5: 500] @ 0x1 0x2\n"
PPROF = {"Content-Type": "application/octet-stream"}


@pytest.fixture(scope="module")
def gateway():
    with running(Gateway()) as started:
        yield started
        assert started.alive()


def command(to, body):
    done = subprocess.run([BUILD / "profgate", "convert", "--to", to, "-", "-"], input=body, capture_output=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return done.stdout


def convert(gateway, body, query="", **headers):
    status, fields, answer = gateway.post(body, {name.replace("_", "-"): value for name, value in headers.items()}, path="/v1/convert" + query)
    assert status == 200, (status, answer)
    return {name.lower(): value for name, value in dict(fields).items()}["content-type"], answer


def test_it_answers_as_the_command_does(gateway):
    otlp = command("otlp", CPU)
    for body, query, headers, type, expected in (
            (CPU, "", PPROF, "application/x-protobuf", otlp),
            (gzip.decompress(CPU), "", PPROF, "application/x-protobuf", otlp),
            (gzip.compress(CPU), "", {**PPROF, "Content-Encoding": "gzip"}, "application/x-protobuf", otlp),
            (CPU, "", {"Accept": "application/json"}, "application/json", command("json", CPU)),
            (CPU, "", {"Accept": "application/x-protobuf;q=0.1, application/octet-stream;q=0.05, application/json"}, "application/json", command("json", CPU)),
            (CPU, "", {"Accept": "application/json; q=0.8, text/plain;Q=0.9, */*;q=0.1"}, "text/plain", command("folded", CPU)),
            (CPU, "", {"Accept": "application/json;q=0.5, */*"}, "application/x-protobuf", otlp),
            (CPU, "", {"Accept": "application/json;q=0.000, */*;q=0"}, "application/x-protobuf", otlp),
            (CPU, "?to=json", {"Accept": "text/plain"}, "application/json", command("json", CPU)),
            (CPU, "?to=speedscope", {}, "application/json", command("speedscope", CPU)),
            (CPU, "?to=folded", {}, "text/plain", command("folded", CPU)),
            (otlp, "", {}, "application/octet-stream", command("pprof", otlp)),
            (command("json", CPU), "", {"Content-Type": "application/json"}, "application/octet-stream", command("pprof", otlp)),
            (command("folded", CPU), "", {}, "application/x-protobuf", command("otlp", command("folded", CPU))),
            (LEGACY, "", {}, "application/x-protobuf", command("otlp", LEGACY)),
            (LEGACY, "?to=folded", {}, "text/plain", b"0x1;0x0 524338\n"),
            (otlp, "?to=json", {}, "application/json", command("json", CPU)),
            (CPU, "?to=pprof", {}, "application/octet-stream", command("pprof", otlp))):
        assert convert(gateway, body, query, **{"Content-Type": "application/x-protobuf", **headers}) == (type, expected), (query, headers)


def test_captured_requests_become_what_the_command_makes_of_them(gateway):
    for file in captures("ebpf-*.pb")[:3]:
        body = file.read_bytes()
        done = subprocess.run([BUILD / "profgate", "convert", "--to", "pprof", "-", "-"], input=body, capture_output=True, timeout=PATIENCE)
        assert convert(gateway, body)[1] == done.stdout


def test_an_exact_pprof_is_the_request_again(gateway):
    otlp = captures("ebpf-go*.pb")[0].read_bytes()
    type, exact = convert(gateway, otlp, "?to=pprof-exact")
    assert (type, exact) == ("application/octet-stream", command("pprof-exact", otlp))
    assert convert(gateway, exact) == ("application/x-protobuf", otlp)
    assert b"checkout" in convert(gateway, exact, "?service.name=checkout")[1], "who says whose it is knows better"


def test_what_pprof_was_before_is_counted_as_well(gateway):
    """A CPU profile of gperftools: 3 and 4 samples of 10 ms."""
    cpu = struct.pack("<20Q", 0, 3, 0, 10000, 0, 3, 2, 0x401000, 0x402000, 4, 2, 0x401004, 0x403000, 0, 1, 0, 0, 0, 0, 0)
    before = gateway.total("profile_cpu_time_seconds_total"), gateway.total("profgate_samples_total")
    for body in (cpu[:128], gzip.compress(cpu[:128])):
        assert gateway.post(body, PPROF, path="/v1/pprof")[0] == 200
    assert gateway.post(LEGACY, {"Content-Type": "text/plain; charset=utf-8"}, path="/v1/pprof")[0] == 200
    assert gateway.total("profile_cpu_time_seconds_total") - before[0] == pytest.approx(0.14)
    assert gateway.total("profgate_samples_total") > before[1]
    status, _, answer = gateway.post(LEGACY + b"x\n", {"Content-Type": "text/plain"}, path="/v1/pprof")
    assert status == 400 and "line 3" in json.loads(answer)["message"]


def test_nothing_of_it_is_counted(gateway):
    before = gateway.total("profgate_samples_total"), gateway.total("profgate_requests_total", outcome="converted")
    convert(gateway, CPU)
    wait_for(lambda: gateway.total("profgate_requests_total", outcome="converted") == before[1] + 1, "the conversion is counted as such")
    assert gateway.total("profgate_samples_total") == before[0]


def test_what_is_wrong_is_said(gateway):
    for body, query, status, says in (
            (CPU, "?to=svg", 400, "to: profiles become"),
            (b"no profile", "", 400, ""), (b"", "", 400, ""),
            (CPU[:900], "", 400, "gzip"),
            (b"{]", "?to=pprof", 400, ""),
            (b"{}", "?to=pprof", 400, "no profile in it"),
            *((b'{"error": "out of coffee"}', "?to=" + to, 400, "no profile in it") for to in ("otlp", "json", "folded", "speedscope")),
            (CPU, "?a=%zz", 400, "percent-encoded"),
            (gzip.compress(bytes(80 << 20)), "", 413, "larger than")):
        got, _, answer = gateway.post(body, PPROF, path="/v1/convert" + query)
        assert got == status and says in json.loads(answer)["message"], (query, got, answer)
    assert gateway.post(CPU, PPROF, path="/v1/convert", method="GET")[0] == 405


def test_deep_stacks_are_folded_however_much_longer_they_are(gateway):
    """A frame is a byte of OTLP where a stack refers to it, and its name in each line that it stands in."""
    lines = [";".join(f"com.example.shop.checkout.Class{(i + i // 31 * k) * k % 31:02}.method" for k in range(100)) + f" {i + 1}" for i in range(1, 400)]
    text = ("\n".join(lines) + "\n").encode()
    otlp = command("otlp", text)
    assert len(otlp) * 8 < len(text)
    assert sorted(convert(gateway, otlp, "?to=folded")[1].splitlines()) == sorted(text.splitlines())


def test_a_pprof_of_which_no_type_is_said_is_taken(gateway):
    assert gateway.post(CPU, {"Content-Type": ""}, path="/v1/pprof")[0] == 200
    assert gateway.post(CPU, {"Content-Type": "text/html"}, path="/v1/pprof")[0] == 415
    assert gateway.post(CPU, {"Content-Type": ""})[0] == 415, "OTLP has two, and says nothing of none"


def test_the_query_says_whose_a_pprof_is(gateway):
    for path in ("/v1/convert?to=json&", "/v1/convert?"):
        answer = gateway.post(CPU, PPROF, path=path + "service.name=check+out&host.name=caf%C3%A9")[2]
        if b"resourceProfiles" not in answer:
            answer = command("json", answer)
        [resource] = json.loads(answer)["resourceProfiles"]
        found = {a["key"]: a["value"]["stringValue"] for a in resource["resource"]["attributes"]}
        assert found == {"service.name": "check out", "host.name": "café"}
    for query in ("a=1&a=2", "=1", "a=%ff", "&".join(f"a{i}=1" for i in range(65))):
        for path in ("/v1/pprof?", "/v1/convert?"):
            status, _, answer = gateway.post(CPU, PPROF, path=path + query)
            assert status == 400 and json.loads(answer)["message"], query


def test_attributes_of_the_query_are_labels_of_metrics(tmp_path):
    rules = tmp_path / "service.rules"
    rules.write_text('rules 1\npack by\ncounter by.service { describe "CPU time by service" unit "s" on cpu value time '
                     'label service = resource["service.name"] ?? "unknown" }\n')
    gateway = Gateway("--set", f"rules.files={rules}")
    with running(gateway):
        for service in ("checkout", "cart"):
            assert gateway.post(CPU, PPROF, path=f"/v1/pprof?service.name={service}")[0] == 200
        totals = [gateway.total("by_service_seconds_total", service=service) for service in ("checkout", "cart")]
        assert totals[0] == totals[1] > 0


def test_labels_that_name_spans_become_links_as_configured():
    """Pyroscope's profile_id is a span's id."""
    texts = [b"", b"x", b"trace_id", b"0af7651916cd43dd8448eb211c80319c", b"profile_id", b"b7ad6b7169203331"]
    cpu = (b"\x0a\x04\x08\x01\x10\x01\x22\x02\x08\x01" + b"".join(b"\x32" + bytes([len(t)]) + t for t in texts) +
           b"\x12\x12\x0a\x01\x01\x12\x01\x01\x1a\x04\x08\x02\x10\x03\x1a\x04\x08\x04\x10\x05")
    for set, links in (([], 1), (["--set", "pprof.span_id_labels=span_id,profile_id"], 2)):
        with running(Gateway(*set)) as gateway:
            request = json.loads(convert(gateway, cpu, "?to=json", **PPROF)[1])
            assert len(request["dictionary"]["linkTable"]) == links
            if links == 2:
                assert request["dictionary"]["linkTable"][1] == {"traceId": texts[3].decode(), "spanId": texts[5].decode()}
                assert len(request["dictionary"]["attributeTable"]) == 1


def large(gateway, version):
    """Asks for an answer of 8 MB and reads none of it but the head."""
    cpu = b"\x0a\x04\x08\x01\x10\x01\x22\x02\x08\x01\x32\x00\x32\x01x" + b"\x12\x06\x0a\x01\x01\x12\x01\x01" * 200_000
    s = socket.create_connection(("127.0.0.1", gateway.ports[0]))
    s.settimeout(PATIENCE)
    s.sendall(b"POST /v1/convert?to=json HTTP/%s\r\nHost: x\r\nContent-Type: application/octet-stream\r\n"
              b"Content-Length: %d\r\n\r\n" % (version, len(cpu)) + cpu)
    return s, s.recv(12)


def test_answers_that_nobody_reads_are_on_the_budget_until_their_connections_end():
    gateway = Gateway("--set", "service.workers=1", "--set", "limits.memory=48MiB", "--set", "limits.per_client.memory=48MiB",
                      "--set", "limits.request_bytes=16MiB")
    with running(gateway):
        before = gateway.rss_kib("VmRSS")
        open, heads = [], []
        while not heads or heads[-1] == b"HTTP/1.1 200":
            s, head = large(gateway, b"1.1")
            open.append(s), heads.append(head)
            assert len(open) < 64, "memory is not charged"
        assert heads[-1] == b"HTTP/1.1 503" and len(open) > 2, heads
        assert gateway.rss_kib() - before < 200 << 10
        for s in open:
            s.close()
        s, head = wait_for(lambda: next((one for one in [large(gateway, b"1.0")] if b"200" in one[1]), None), "the memory is given back")
        answer = head + b"".join(iter(lambda: s.recv(1 << 20), b""))
        s.close()
        body = json.loads(answer.partition(b"\r\n\r\n")[2])
        assert len(body["resourceProfiles"][0]["scopeProfiles"][0]["profiles"][0]["samples"]) == 200_000
