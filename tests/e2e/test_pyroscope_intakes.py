"""Pyroscope's intakes by hand: names and moments as its server reads them, and hostile forms and messages, each with a clear answer."""
import base64
import gzip
import json
import socket
import urllib.parse

import grpc
import pytest
from programs import DATA, PATIENCE, Gateway, running, wait_for

CPU = (DATA / "pprof/go-cpu.pb.gz").read_bytes()
PUSH = "/push.v1.PusherService/Push"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    out = tmp_path_factory.mktemp("raw") / "raw.jsonl"
    config = f"exporters: {{ file/raw: {{ path: {out}, format: json }} }}\nprofiles: {{ keep: 100%, exporters: [file/raw] }}\n"
    with running(Gateway("--set", "service.workers=1", config=config)) as started:
        started.out = out
        before = started.rss_kib("VmRSS")
        yield started
        assert started.alive()
        assert started.rss_kib() - before < 400 << 10


def last(gateway):
    """The resource and the first profile of the newest request downstream."""
    requests = gateway.out.read_text().split("\n")[:-1] if gateway.out.exists() else []
    if not requests:
        return {}, {}
    resource = json.loads(requests[-1])["resourceProfiles"][-1]
    return ({a["key"]: a["value"]["stringValue"] for a in resource["resource"].get("attributes", [])},
            resource["scopeProfiles"][0]["profiles"][0])


def ingest(gateway, name, body=CPU, type="application/octet-stream", path="/ingest", **query):
    query = {"format": "pprof", **query, "name": name}
    query = urllib.parse.urlencode({k: v for k, v in query.items() if v is not None})
    status, _, answer = gateway.post(body, {"Content-Type": type}, path=f"{path}?{query}")
    return status, json.loads(answer).get("message", "")


def form(*parts, boundary="XX"):
    body = b"".join(b"--%s\r\nContent-Disposition: form-data; name=\"%s\"; filename=\"f\"\r\n\r\n%s\r\n" % (boundary.encode(), name, content)
                    for name, content in parts)
    return body + b"--%s--\r\n" % boundary.encode()


@pytest.mark.parametrize("name, attributes", [
    ("app", {"service.name": "app"}),
    ("app{}", {"service.name": "app"}),
    (" app { a = b , c=d e,__session_id__=1}", {"a": "b", "c": "d e", "service.name": "app"}),
    ("app.cpu{service_name=shop,a=1,a=2}", {"service.name": "shop", "a": "2", "app_name": "app.cpu"}),
    ("app{a=b=c}}tail", {"a": "b=c", "service.name": "app"}),
    ("app{a=b", {"a": "b", "service.name": "app"}),
    ("ä{ö=ü}", {"service.name": "ä", "ö": "ü"}),
])
def test_an_applications_name_says_whose_it_is(gateway, name, attributes):
    unique = f"{len(attributes)}{abs(hash(name))}"
    labelled = name.replace("{", "{" + f"test={unique},", 1) if "{" in name else name + f"{{test={unique}}}"
    for path in ("/ingest", "/pyroscope/ingest"):
        assert ingest(gateway, labelled, path=path) == (200, "")
    wait_for(lambda: last(gateway)[0].get("test") == unique, "it is downstream")
    assert last(gateway)[0] == {**attributes, "test": unique}


@pytest.mark.parametrize("moment, nanoseconds", [("1700000000", 1700000000 * 10**9), ("1700000000123", 1700000000123 * 10**6),
                                                 ("1700000000123456789", 1700000000123456789), ("now-1h", None), ("9" * 30, None)])
def test_a_profile_without_a_time_has_that_of_the_query(gateway, moment, nanoseconds):
    timeless = b"\x0a\x04\x08\x01\x10\x01\x12\x06\x0a\x01\x01\x12\x01\x01\x22\x02\x08\x01\x32\x00\x32\x01x"
    assert ingest(gateway, f"t{{moment={moment}}}", timeless, **{"from": moment, "until": "1700000010"})[0] == 200
    wait_for(lambda: last(gateway)[0].get("moment") == moment, "it is downstream")
    assert int(last(gateway)[1].get("timeUnixNano", 0)) == (nanoseconds or 0)


WRONG = [
    (dict(name=""), 400, "an application's name"),
    (dict(name="{a=b}"), 400, "an application's name"),
    (dict(name="a{" + ",".join(f"l{i}=1" for i in range(100)) + "}"), 400, "too many"),
    (dict(name="a", format="jfr"), 400, "jfr is not taken"),
    (dict(name="a", format="speedscope"), 400, "speedscope is not taken"),
    (dict(name="a", format=None, body=b"\x00\x04main 1", type="binary/octet-stream+trie"), 400, "trie is not taken"),
    (dict(name="a", format="folded", body=b"main 1", type="binary/octet-stream+tree; v=1"), 400, "tree is not taken"),
    (dict(name="a", body=b"not one"), 400, ""),
    (dict(name="a", format="folded", body=b"main;f x\n"), 400, "line"),
    (dict(name="a", format=None, body=CPU), 400, ""),
    (dict(name="a", body=CPU[:500]), 400, "gzip"),
    (dict(name="a", body=gzip.compress(bytes(80 << 20))), 413, "larger than"),
    (dict(name="a", body=form((b"profile", gzip.compress(bytes(80 << 20)))), type="multipart/form-data; boundary=XX"), 413, "larger than"),
    (dict(name="a", body=form((b"profile", CPU), (b"prev_profile", CPU)), type="multipart/form-data; boundary=XX"), 400, "prev_profile"),
    (dict(name="a", body=form((b"jfr", CPU)), type="multipart/form-data; boundary=XX"), 400, "jfr is not taken"),
    (dict(name="a", body=form((b"profile", CPU)), type="multipart/form-data"), 400, "boundary"),
    (dict(name="a", body=form((b"profile", CPU)), type="multipart/form-data; boundary=XY"), 400, "nowhere"),
    (dict(name="a", body=form((b"profile", CPU))[:-20], type="multipart/form-data; boundary=XX"), 400, "cut short"),
    (dict(name="a", body=form(*[(b"p", b"")] * 100), type="multipart/form-data; boundary=XX"), 400, "more than 64 parts"),
    (dict(name="a", body=form((b"p" * 10_000_000, CPU)), type="multipart/form-data; boundary=XX"), 400, "longer than 8 KiB"),
    (dict(name="a", body=b"--XX" * 5_000_000, type="multipart/form-data; boundary=XX"), 200, ""),  # its end, and more behind it
    (dict(name="a", body=b"--XXa" * 5_000_000, type="multipart/form-data; boundary=XX"), 400, "followed by something else"),
    (dict(name="a", body=b"\r\n--XX" * 5_000_000, type="multipart/form-data; boundary=XX"), 400, ""),
]


@pytest.mark.parametrize("what, status, says", WRONG, ids=range(len(WRONG)))
def test_what_is_wrong_is_said(gateway, what, status, says):
    got = ingest(gateway, **what)
    assert got[0] == status and says in got[1], got


@pytest.mark.parametrize("app, service, type, unit, value", [
    ("shop", "shop", "samples", "count", 3), ("a.b.cpu", "a.b", "samples", "count", 3), ("a.wall", "a", "samples", "count", 3),
    ("a.alloc_space", "a", "alloc_space", "bytes", 3), ("a.mutex_duration", "a", "delay", "nanoseconds", 3),
    ("a.service", "a.service", "samples", "count", 3), ("cpu", "cpu", "samples", "count", 3)])
def test_folded_stacks_and_lines_are_of_the_kind_that_the_name_ends_with(gateway, app, service, type, unit, value):
    unique = f"{app}{type}"
    for body, format in ((b"main;f;g 2\nmain;f 1\n", None), (b"main;f;g 2\nmain;f 1\n", "folded"), (b"main;f;g\nmain;f\nmain;f;g\n", "lines")):
        before = len(gateway.out.read_text().split("\n")) if gateway.out.exists() else 1
        assert ingest(gateway, f"{app}{{test={unique}}}", body, "binary/octet-stream", format=format, sampleRate="50",
                      **{"from": "1700000000", "until": "1700000010"}) == (200, "")
        wait_for(lambda: gateway.out.exists() and len(gateway.out.read_text().split("\n")) > before, "it is downstream")
        request = json.loads(gateway.out.read_text().split("\n")[-2])
        strings, (resource, profile) = request["dictionary"]["stringTable"], last(gateway)
        assert resource == {"service.name": service, "test": unique}
        assert (strings[profile["sampleType"]["typeStrindex"]], strings[profile["sampleType"]["unitStrindex"]]) == (type, unit)
        assert sum(int(v) for sample in profile["samples"] for v in sample["values"]) == value
        assert profile["timeUnixNano"] == "1700000000000000000" and profile["durationNano"] == "10000000000"
        assert int(profile.get("period", 0)) == (20_000_000 if type == "samples" else 0)


def test_what_pyroscope_takes_for_nothing_is_nothing(gateway):
    for body, type in ((b"", "application/octet-stream"), (form((b"other", b"1")), "multipart/form-data; boundary=XX"),
                       (form((b"profile", b"")), "Multipart/Form-Data; Boundary=\"XX\"")):
        assert ingest(gateway, "a", body, type) == (200, "")


def series(labels, *profiles):
    return {"series": [{"labels": [{"name": name, "value": value} for name, value in labels],
                        "samples": [{"rawProfile": base64.b64encode(profile).decode(), "ID": "x"} for profile in profiles]}]}


MESSAGES = [
    ("", 400, ""), ("[]", 400, "an object"), ("{", 400, ""), ("{} x", 400, ""), ("{\"series\":1}", 400, "a list"),
    ("{\"series\":[1]}", 400, "an object"), ("{\"series\":[{\"samples\":[{\"rawProfile\":1}]}]}", 400, "a string"),
    ("{\"series\":[{\"samples\":[{\"rawProfile\":\"*\"}]}]}", 400, "base64"), ("{\"series\":" * 100_000, 400, ""),
    (json.dumps(series([], b"")), 400, ""),
    (json.dumps(series([(f"l{i}", "") for i in range(5000)], CPU)), 400, "too many"),
    (json.dumps(series([("", "1")], CPU)), 400, "no name"),
    (json.dumps(series([], *[gzip.compress(bytes(30 << 20))] * 4)), 400, ""),
    (json.dumps(series([], *[gzip.compress(b"\x0a\x04\x08\x01\x10\x01\x32\x00\x32\x01x" + b"\x32\x00" * (12 << 20), 9)] * 4)), 413, "larger than"),
    ("{}", 200, ""), ("{\"series\":null, \"other\":[{}]}", 200, ""), ("{\"series\":[{},{\"labels\":null}]}", 200, ""),
    (json.dumps(series([("service_name", "a\"\n")], CPU, CPU)), 200, ""),
]


@pytest.mark.parametrize("message, status, says", MESSAGES, ids=range(len(MESSAGES)))
def test_a_push_in_json(gateway, message, status, says):
    got, fields, answer = gateway.post(message.encode(), {"Content-Type": "application/json"}, path=PUSH)
    answer = json.loads(answer)
    assert got == status and dict(fields)["content-type"] == "application/json", answer
    if got != 200:
        assert says in answer["message"] and answer["code"] in ("invalid_argument", "resource_exhausted"), answer
    else:
        assert answer == {}


def lengthy(number, content):
    length, n = b"", len(content)
    while n > 127:
        length, n = length + bytes([n & 127 | 128]), n >> 7
    return bytes([number << 3 | 2]) + length + bytes([n]) + content


def write_raw(labels, *profiles):
    """Parca's WriteRawRequest of one series: deprecated tenant, series, normalized."""
    labels = b"".join(lengthy(1, lengthy(1, name.encode()) + lengthy(2, value.encode())) for name, value in labels)
    return lengthy(1, b"old") + lengthy(2, lengthy(1, labels) + b"".join(lengthy(2, lengthy(1, profile) + lengthy(2, b"executable")) for profile in profiles)) + b"\x18\x01"


def test_parcas_raw_profiles(gateway):
    """WriteRaw, as gRPC: labels are a message, the profiles as they are."""
    def call(message):
        with grpc.insecure_channel(f"127.0.0.1:{gateway.ports[0]}") as channel:
            return channel.unary_unary("/parca.profilestore.v1alpha1.ProfileStoreService/WriteRaw")(message, timeout=PATIENCE)
    before = gateway.total("profile_cpu_time_seconds_total")
    assert gateway.post(CPU, {"Content-Type": "application/octet-stream"}, path="/v1/pprof")[0] == 200
    once = gateway.total("profile_cpu_time_seconds_total") - before
    labels = [("__name__", "parca_agent_cpu"), ("node", "n1"), ("service_name", "shop")]
    assert call(write_raw(labels, CPU, gzip.decompress(CPU))) == b""
    assert gateway.total("profile_cpu_time_seconds_total") - before == pytest.approx(3 * once)
    wait_for(lambda: last(gateway)[0] == {"node": "n1", "service.name": "shop"}, "it is forwarded with its labels")
    assert call(b"") == b""
    for message in (write_raw(labels, b"no profile"), lengthy(2, b"\x08\x01"), lengthy(2, lengthy(1, b"\xff")), write_raw([("", "x")], CPU)):
        with pytest.raises(grpc.RpcError) as refused:
            call(message)
        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT and refused.value.details()


def test_parcas_raw_profiles_as_json(gateway):
    """grpc-gateway's form: the same message as ProtoJSON, answers as a Status."""
    path = "/api/profiles/writeraw"
    message = {"tenant": "", "normalized": True, "series": [
        {"labels": {"labels": [{"name": "__name__", "value": "memory"}, {"name": "service_name", "value": "json"}, {"name": "zone", "value": "\u00e9"}]},
         "samples": [{"rawProfile": base64.b64encode(CPU).decode(), "executableInfo": [{"elfType": 3}]},
                     {"raw_profile": base64.urlsafe_b64encode(gzip.decompress(CPU)).decode()}]}]}
    before = gateway.total("profile_cpu_time_seconds_total")
    assert gateway.post(CPU, {"Content-Type": "application/octet-stream"}, path="/v1/pprof")[0] == 200
    once = gateway.total("profile_cpu_time_seconds_total") - before
    for type in ("application/json", "text/plain"):
        status, fields, answer = gateway.post(json.dumps(message).encode(), {"Content-Type": type}, path=path)
        assert (status, answer, dict(fields)["content-type"]) == (200, b"{}", "application/json")
    assert gateway.total("profile_cpu_time_seconds_total") - before == pytest.approx(5 * once)
    wait_for(lambda: last(gateway)[0] == {"zone": "\u00e9", "service.name": "json"}, "it is forwarded with its labels")
    for nothing in ({}, {"series": [{"labels": None, "samples": []}]}, {"series": [{"labels": {"labels": None}}]}):
        assert gateway.post(json.dumps(nothing).encode(), {"Content-Type": "application/json"}, path=path)[0] == 200
    labels = message["series"][0]["labels"]
    for wrong, says in (([], "an object"), ({"series": [{"labels": []}]}, "an object"), ({"series": [{"labels": {"labels": {}}}]}, "a list"),
                        ({"series": [{"labels": labels, "samples": [{"rawProfile": "AAAA"}]}]}, ""),
                        ({"series": [{"labels": {"labels": [{"value": "x"}]}, "samples": message["series"][0]["samples"]}]}, "no name")):
        status, _, answer = gateway.post(json.dumps(wrong).encode(), {"Content-Type": "application/json"}, path=path)
        assert status == 400 and json.loads(answer)["code"] == 3 and says in json.loads(answer)["message"], (wrong, answer)


def test_a_packed_request_that_is_done_elsewhere_leaves_nothing_to_the_next_one(gateway):
    """A push with gzip in it is known to be large once its own coding is undone: a lane works on it. What the worker had undone
    stood before the next coded request: refused, or counted as that one's."""
    packed = {"Content-Encoding": "gzip"}
    push = json.dumps(series([("service_name", "first")], CPU)).encode()
    for _ in range(2):
        assert gateway.post(gzip.compress(push), {**packed, "Content-Type": "application/json"}, path=PUSH)[0] == 200
        status, _, answer = gateway.post(gzip.compress(CPU), {**packed, "Content-Type": "application/octet-stream"}, path="/v1/pprof")
        assert (status, answer) == (200, b"{}")


def test_refusals_of_connect_are_json_whatever_was_sent(gateway):
    for type, body in (("application/proto", b"\xff"), ("application/proto", b"\x0a\x05\x08\x01"), ("application/json", b"!")):
        status, fields, answer = gateway.post(body, {"Content-Type": type}, path=PUSH)
        assert status == 400 and dict(fields)["content-type"] == "application/json" and json.loads(answer)["code"] == "invalid_argument"
    assert gateway.post(b"", {"Content-Type": "text/plain"}, path=PUSH)[0] == 415
    status, fields, answer = gateway.post(b"", {"Content-Type": "application/proto"}, path=PUSH)
    assert (status, answer, dict(fields)["content-type"]) == (200, b"", "application/proto")


def test_credentials_and_slow_bodies_are_as_everywhere(tmp_path):
    (tmp_path / "tokens").write_text("secret\n")
    config = f"receivers: {{ otlp: [{{ endpoint: '127.0.0.1:0', auth: {{ bearer_tokens_file: {tmp_path}/tokens }} }}] }}\n"
    with running(Gateway("--set", "limits.request_timeout=1s", config=config, listen=0)) as gateway:
        for path in ("/ingest?name=a&format=pprof", PUSH, "/v1/convert", "/v1/pprof"):
            headers = {"Content-Type": "application/octet-stream" if path != PUSH else "application/proto"}
            assert gateway.post(CPU if path != PUSH else b"", headers, path=path)[0] == 401
            assert gateway.post(CPU if path != PUSH else b"", {**headers, "Authorization": "Bearer secret"}, path=path)[0] == 200
        with socket.create_connection(("127.0.0.1", gateway.ports[0])) as s:
            s.settimeout(PATIENCE)
            s.sendall(b"POST /ingest?name=a&format=pprof HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\nContent-Length: 1000\r\n\r\nx")
            assert s.recv(100).startswith(b"HTTP/1.1 503")
