"""Our statement of the OTLP messages (proto/schema/*.proto) against the published descriptors (PyPI opentelemetry-proto).

Ours may lack messages and, where LEFT_OUT says so, fields; what we state must be the same in every respect that shows
on the wire or in JSON.
"""
import importlib
import pathlib
import shutil
import subprocess

import pytest

SCHEMA = pathlib.Path(__file__).resolve().parents[2] / "proto" / "schema"
PUBLISHED = {  # our file -> the published module
    "common.proto": "opentelemetry.proto.common.v1.common_pb2",
    "resource.proto": "opentelemetry.proto.resource.v1.resource_pb2",
    "profiles.proto": "opentelemetry.proto.profiles.v1development.profiles_pb2",
    "profiles_service.proto": "opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2",
    "metrics.proto": "opentelemetry.proto.metrics.v1.metrics_pb2",
    "metrics_service.proto": "opentelemetry.proto.collector.metrics.v1.metrics_service_pb2",
}
NOT_OTLP = {"rpc.proto", "health.proto", "reflection.proto", "reflection_v1alpha.proto"}
LEFT_OUT = {  # message -> fields we leave out on purpose
    "opentelemetry.proto.metrics.v1.Metric": {"exponential_histogram", "summary"},
}


def files(descriptor_set):
    return {f.name: f for f in descriptor_set.file}


def messages(file):
    """Every message of a file with its full name, nested ones too."""
    todo = [(file.package, m) for m in file.message_type]
    while todo:
        prefix, message = todo.pop()
        name = f"{prefix}.{message.name}"
        yield name, message
        todo += [(name, nested) for nested in message.nested_type]


def field_facts(message, field):
    oneof = message.oneof_decl[field.oneof_index].name if field.HasField("oneof_index") else None
    return {
        "number": field.number,
        "type": field.type,
        "label": field.label,
        "type_name": field.type_name,
        "json_name": field.json_name,
        "oneof": oneof,
        "packed": field.options.packed if field.options.HasField("packed") else None,
    }


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2", reason="Python package protobuf is missing")
    protoc = shutil.which("protoc")
    if not protoc:
        pytest.skip("protoc is missing (scripts/setup installs protobuf-compiler)")
    out = tmp_path_factory.mktemp("schema") / "ours.desc"
    subprocess.run([protoc, f"--proto_path={SCHEMA}", f"--descriptor_set_out={out}", "--include_imports",
                    *sorted(PUBLISHED)], check=True, cwd=SCHEMA)
    return files(descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()))


def published(our_name):
    pytest.importorskip("opentelemetry.proto", reason="Python package opentelemetry-proto is missing")
    descriptor_pb2 = importlib.import_module("google.protobuf.descriptor_pb2")
    module = importlib.import_module(PUBLISHED[our_name])
    file = descriptor_pb2.FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(file)
    for name, message in messages(file):  # built-in descriptors omit json_name where it is the default
        for field in message.field:
            field.json_name = module.DESCRIPTOR.pool.FindFieldByName(f"{name}.{field.name}").json_name
    return file


def test_every_schema_file_is_compared():
    assert {p.name for p in SCHEMA.glob("*.proto")} == set(PUBLISHED) | NOT_OTLP


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_messages_and_fields(ours, name):
    theirs = dict(messages(published(name)))
    compared = 0
    assert ours[name].package == published(name).package
    for full_name, message in messages(ours[name]):
        assert full_name in theirs, f"{full_name} is not in the published schema"
        want = {f.name: field_facts(theirs[full_name], f) for f in theirs[full_name].field
                if f.name not in LEFT_OUT.get(full_name, set())}
        have = {f.name: field_facts(message, f) for f in message.field}
        assert have == want, full_name
        compared += len(have)
    assert compared > 0


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_enums_and_services(ours, name):
    theirs = published(name)
    for enum in ours[name].enum_type:
        match = [e for e in theirs.enum_type if e.name == enum.name]
        assert match and {v.name: v.number for v in match[0].value} == {v.name: v.number for v in enum.value}
    have = {s.name: {m.name: (m.input_type, m.output_type, m.client_streaming, m.server_streaming) for m in s.method}
            for s in ours[name].service}
    want = {s.name: {m.name: (m.input_type, m.output_type, m.client_streaming, m.server_streaming) for m in s.method}
            for s in theirs.service}
    assert have == want
