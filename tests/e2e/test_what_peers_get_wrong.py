"""What other receivers were seen to get wrong (end of the process, a closed connection, silence), over gRPC and HTTP. Beside
this: test_hollow.py (10 million empty messages), test_bad_input.py (deep nesting, bombs, garbage), test_main_job.py (64
connections on both workers lose and double nothing; what was acknowledged before SIGTERM is flushed)."""
import pytest
from programs import EXPORT_METHOD, PATIENCE, Gateway, captures, running, wait_for
from test_bad_input import field, varint

GOOD = captures("ebpf-go*.pb")[0].read_bytes()
FAR = [99, (1 << 31) - 1, -1, -(1 << 31)]


def indices(*values):
    return b"".join(varint(v) for v in values)


def dictionary(bad):
    """Two entries a table: 0, and one that everything refers to; `bad` replaces an index of the second by name."""
    def index(name, good):
        return bad.get(name, good)

    function = field(1, index("function name", 3)) + field(2, index("system name", 3)) + field(3, index("file", 3))
    location = (field(1, index("mapping", 1)) + field(3, field(1, index("function", 1)))
                + field(4, indices(index("attribute of a location", 1))))
    mapping = field(4, index("filename", 3)) + field(5, indices(index("attribute of a mapping", 1)))
    attribute = field(1, index("attribute key", 3)) + field(2, field(1, b"x")) + field(3, index("attribute unit", 3))
    tables = [mapping, location, function, b"", None, attribute, field(1, indices(index("location", 1)))]
    strings = b"".join(field(5, s) for s in (b"", b"samples", b"count", b"name"))
    return strings + b"".join(field(n, b"") + field(n, entry) for n, entry in enumerate(tables, 1) if entry is not None)


def request(bad):
    """Two profiles: samples good, suspicious, good; and one good sample. Good ones refer to entries 0 only."""
    good = field(4, b"\x01")
    suspicious = (field(1, bad.get("stack", 1)) + field(2, indices(bad.get("attribute of a sample", 0)))
                  + field(3, bad.get("link", 0)) + field(4, b"\x01"))
    kind = field(1, field(1, bad.get("sample type", 1)) + field(2, bad.get("sample unit", 2)))
    period = field(5, field(1, bad.get("period type", 0)) + field(2, bad.get("period unit", 0)))
    first = kind + b"".join(field(2, s) for s in (good, suspicious, good)) + period
    first += field(11, indices(bad.get("attribute of a profile", 0)))
    second = field(1, field(1, 1) + field(2, 2)) + field(2, good)
    return field(1, field(2, field(2, first) + field(2, second))) + field(2, dictionary(bad))


OF_SAMPLES = ["stack", "link", "attribute of a sample", "location", "mapping", "function", "function name", "system name",
              "file", "filename", "attribute of a location", "attribute of a mapping", "attribute key", "attribute unit"]
OF_PROFILES = ["sample type", "sample unit", "period type", "period unit", "attribute of a profile"]


@pytest.fixture(scope="module")
def gateway():
    with running(Gateway("--set", "metrics.flush_interval=200ms")) as started:
        yield started
        assert started.stop() == 0


@pytest.fixture(scope="module")
def export(gateway):
    """One call by gRPC with these bytes: the response's bytes, or the error."""
    grpc = pytest.importorskip("grpc")
    with grpc.insecure_channel(f"127.0.0.1:{gateway.ports[0]}", options=[("grpc.max_send_message_length", -1)]) as channel:
        call = channel.unary_unary(EXPORT_METHOD, request_serializer=None, response_deserializer=None)
        yield lambda body: call(body, timeout=PATIENCE)


def samples(gateway):
    return gateway.total("profgate_samples_total"), gateway.total("profgate_samples_rejected_total")


def post(gateway):
    def send(body):
        status, _, answer = gateway.post(body)
        assert status == 200, answer
        return answer
    return send


def test_the_request_is_good_until_an_index_is_not(gateway, export):
    was = samples(gateway)
    assert export(request({})) == b""
    wait_for(lambda: samples(gateway) == (was[0] + 4, was[1]), "four samples")


@pytest.mark.parametrize("name", OF_SAMPLES + OF_PROFILES)
@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_each_bad_index_rejects_what_reaches_it_and_nothing_else(gateway, export, protocol, name):
    send = export if protocol == "grpc" else post(gateway)
    rejected = 1 if name in OF_SAMPLES else 3
    for far in FAR:
        was = samples(gateway)
        answer = send(request({name: far}))
        assert b"profiles[0]" in answer, (far, answer)
        wait_for(lambda: samples(gateway) == (was[0] + 4 - rejected, was[1] + rejected), f"{rejected} of 4 rejected for {far}")


def test_more_than_4_mib_by_grpc_and_20_by_http(gateway, export):
    padding = field(15, bytes(30 << 20))  # an unknown field
    assert export(GOOD + padding) == b""
    assert post(gateway)(GOOD + padding) == b""


def test_truncated_random_and_wrong_wire_type_answer_by_the_book(gateway, export):
    grpc = pytest.importorskip("grpc")
    for body in (GOOD[:-1], b"\xff" * 50, field(1, 5), field(1, field(2, 7)), field(2, field(5, 3))):
        with pytest.raises(grpc.RpcError) as refused:
            export(body)
        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT and refused.value.details()
        status, headers, answer = gateway.post(body)
        assert status == 400 and headers["content-type"] == "application/x-protobuf" and answer
