"""Health checking and server reflection of a running gateway, as a probe and as a client without .proto files see them."""
import json
import signal
import subprocess
import threading

import peers
import pytest
from programs import PATIENCE, Gateway, running

PROFILES = "opentelemetry.proto.collector.profiles.v1development.ProfilesService"
SERVING, NOT_SERVING, SERVICE_UNKNOWN = b"\x08\x01", b"\x08\x02", b"\x08\x03"
HEALTH = "/grpc.health.v1.Health/"


def asks_for(service):
    """HealthCheckRequest."""
    return b"\x0a" + bytes([len(service)]) + service.encode() if service else b""


@pytest.fixture
def grpc():
    return pytest.importorskip("grpc", reason="Python package grpcio is missing")


def channel_to(grpc, gateway, port=0):
    return grpc.insecure_channel(gateway_address(gateway, port))


def gateway_address(gateway, port=0):
    return f"127.0.0.1:{gateway.ports[port]}"


@pytest.mark.parametrize("port", [0, 1])
def test_check_as_a_probe_asks(grpc, port):
    with running(Gateway()) as gateway, channel_to(grpc, gateway, port) as channel:
        check = channel.unary_unary(HEALTH + "Check")
        assert check(asks_for(""), timeout=PATIENCE) == SERVING
        assert check(asks_for(PROFILES), timeout=PATIENCE) == SERVING
        with pytest.raises(grpc.RpcError) as refusal:
            check(asks_for("no.such.Service"), timeout=PATIENCE)
        assert refusal.value.code() == grpc.StatusCode.NOT_FOUND
        listed = channel.unary_unary(HEALTH + "List")(b"", timeout=PATIENCE)
        assert PROFILES.encode() in listed
        with pytest.raises(grpc.RpcError) as refusal:
            channel.unary_unary(HEALTH + "Guess")(b"", timeout=PATIENCE)
        assert refusal.value.code() == grpc.StatusCode.UNIMPLEMENTED


def test_watch_is_told_that_the_gateway_stops_and_does_not_hold_it_up(grpc):
    with running(Gateway()) as gateway, channel_to(grpc, gateway) as channel:
        watch = channel.unary_stream(HEALTH + "Watch")(asks_for(PROFILES), timeout=PATIENCE)
        unknown = channel.unary_stream(HEALTH + "Watch")(asks_for("x"), timeout=PATIENCE)
        assert next(watch) == SERVING
        assert next(unknown) == SERVICE_UNKNOWN
        gateway.process.send_signal(signal.SIGTERM)
        assert next(watch) == NOT_SERVING
        with pytest.raises(grpc.RpcError) as end:
            next(watch)
        assert end.value.code() == grpc.StatusCode.UNAVAILABLE
        assert gateway.wait(10) == 0


def test_watchers_are_bounded_and_probes_still_answered(grpc):
    with running(Gateway()) as gateway, channel_to(grpc, gateway) as channel:
        watches = [channel.unary_stream(HEALTH + "Watch")(b"", timeout=PATIENCE) for _ in range(80)]
        codes = []
        for watch in watches:
            try:
                assert next(watch) == SERVING
            except grpc.RpcError as e:
                codes.append(e.code())
        assert codes == [grpc.StatusCode.RESOURCE_EXHAUSTED] * 16
        assert channel.unary_unary(HEALTH + "Check")(b"", timeout=PATIENCE) == SERVING


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
def test_reflection_describes_the_service_of_profiles(grpc, version):
    descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")
    pool = pytest.importorskip("google.protobuf.descriptor_pool").DescriptorPool()
    factory = pytest.importorskip("google.protobuf.message_factory")
    symbol = f"{PROFILES}.Export".encode()
    with running(Gateway()) as gateway, channel_to(grpc, gateway) as channel:
        stream = channel.stream_stream(f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo")
        asked = threading.Semaphore(0)

        def requests():
            yield b"\x22" + bytes([len(symbol)]) + symbol
            # The second one only after the answer to the first: both directions are open. Without it the call ends in an error.
            assert asked.acquire(timeout=PATIENCE)
            yield b"\x3a\x01*"

        answers = stream(requests(), timeout=2 * PATIENCE)
        first = next(answers)
        asked.release()
        listed = next(answers)
        with pytest.raises(StopIteration):
            next(answers)
    assert PROFILES.encode() in listed and b"grpc.health.v1.Health" in listed
    files = {}
    at = first.index(b"\x22", 2 + len(symbol) + 2)  # behind original_request: file_descriptor_response
    body = first[at + 1:]
    length, at = varint(body, 0)
    assert at + length == len(body)
    while at < len(body):
        assert body[at] == 0x0a
        length, at = varint(body, at + 1)
        file = descriptor_pb2.FileDescriptorProto.FromString(body[at:at + length])
        files[file.name] = file
        at += length
    for name in sorted(files, key=lambda n: len(dependencies(files, n))):
        pool.Add(files[name])
    service = pool.FindServiceByName(PROFILES)
    export = service.methods_by_name["Export"]
    request = factory.GetMessageClass(export.input_type)()
    request.dictionary.string_table.append("")
    assert request.SerializeToString() == b"\x12\x02\x2a\x00"


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7f) << shift
        shift, at = shift + 7, at + 1
        if not data[at - 1] & 0x80:
            return value, at


def dependencies(files, name):
    found = set(files[name].dependency)
    for other in files[name].dependency:
        found |= dependencies(files, other)
    return found


def grpcurl(*arguments):
    return subprocess.run([peers.grpcurl(), "-plaintext", *arguments], capture_output=True, text=True, timeout=PATIENCE)


def test_grpcurl_needs_no_proto_files():
    with running(Gateway()) as gateway:
        address = gateway_address(gateway)
        assert grpcurl(address, "list").stdout.split() == [
            "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection",
            PROFILES]
        assert "rpc Export" in grpcurl(address, "describe", PROFILES).stdout
        health = grpcurl("-d", json.dumps({"service": PROFILES}), address, "grpc.health.v1.Health/Check")
        assert json.loads(health.stdout) == {"status": "SERVING"}
        request = {
            "dictionary": {"stringTable": ["", "samples", "count"], "stackTable": [{}], "mappingTable": [{}],
                           "locationTable": [{}], "functionTable": [{}], "linkTable": [{}], "attributeTable": [{}]},
            "resourceProfiles": [{"scopeProfiles": [{"profiles": [{
                "sampleType": {"typeStrindex": 1, "unitStrindex": 2},
                "samples": [{"values": ["1"], "timestampsUnixNano": ["1700000000000000000"]}]}]}]}],
        }
        export = grpcurl("-d", json.dumps(request), address, f"{PROFILES}/Export")
        assert (export.returncode, json.loads(export.stdout)) == (0, {}), export.stderr
