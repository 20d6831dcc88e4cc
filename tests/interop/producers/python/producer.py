"""Sends the known profile (../README.md) with Python's generated OTLP code, of whichever release is installed where this
runs: producer.py http|json|grpc PORT TIMES. Prints the release's layout as it sees it."""
import gzip
import sys
import urllib.request

from google.protobuf import json_format
from opentelemetry.proto.collector.profiles.v1development import profiles_service_pb2 as service
from opentelemetry.proto.profiles.v1development import profiles_pb2 as profiles

START = 1_760_000_000_000_000_000
TEXTS = ["", "samples", "count", "cpu", "nanoseconds", "profile.frame.type", "do_idle", "main", "runtime.mcall"]
KINDS = ["kernel", "native", "go"]
# (stack as locations from 1, values, how many timestamps)
SAMPLES = [([1, 2], [1], 0), ([2], [1, 1], 2), ([3, 2], [1], 0)]


def fields(message):
    return message.DESCRIPTOR.fields_by_name


def layout():
    if "stack_table" not in fields(profiles.ProfilesDictionary):
        return "1.7"
    if "samples" not in fields(profiles.Profile):
        return "1.8"
    return "1.9" if fields(profiles.Sample)["values"].number == 2 else "1.10"


def fill_old(dictionary, profile):
    """1.7: index 0 of a table is a real entry, stacks are slices of the profile's locations, attributes have their keys."""
    for i, kind in enumerate(KINDS):
        dictionary.function_table.add(name_strindex=6 + i)
        dictionary.attribute_table.add(key="profile.frame.type").value.string_value = kind
        dictionary.location_table.add(address=4096 * (i + 1), attribute_indices=[i]).line.add(function_index=i)
    profile.sample_type.add(type_strindex=1, unit_strindex=2, aggregation_temporality=1)
    profile.time_nanos, profile.duration_nanos = START, 5_000_000_000
    for stack, values, times in SAMPLES:
        profile.sample.add(locations_start_index=len(profile.location_indices), locations_length=len(stack), value=values,
                           attribute_indices=[stack[0] - 1], timestamps_unix_nano=range(START, START + times))
        profile.location_indices.extend(i - 1 for i in stack)


def fill(dictionary, profile):
    for table in (dictionary.mapping_table, dictionary.link_table, dictionary.function_table, dictionary.attribute_table,
                  dictionary.location_table, dictionary.stack_table):
        table.add()
    for i, kind in enumerate(KINDS, 1):
        dictionary.function_table.add(name_strindex=5 + i)
        dictionary.attribute_table.add(key_strindex=5).value.string_value = kind
        dictionary.location_table.add(address=4096 * i, attribute_indices=[i]).lines.add(function_index=i)
    profile.sample_type.type_strindex, profile.sample_type.unit_strindex = 1, 2
    profile.time_unix_nano, profile.duration_nano = START, 5_000_000_000
    for i, (stack, values, times) in enumerate(SAMPLES, 1):
        dictionary.stack_table.add(location_indices=stack)
        profile.samples.add(stack_index=i, values=values, attribute_indices=[stack[0]],
                            timestamps_unix_nano=range(START, START + times))


def request():
    message = service.ExportProfilesServiceRequest()
    message.dictionary.string_table.extend(TEXTS)
    resource = message.resource_profiles.add()
    resource.resource.attributes.add(key="service.name").value.string_value = "known"
    scope = resource.scope_profiles.add()
    scope.scope.name = "producer-python"
    profile = scope.profiles.add()
    (fill_old if layout() == "1.7" else fill)(message.dictionary, profile)
    profile.period = 1_000_000_000 // 19
    profile.period_type.type_strindex, profile.period_type.unit_strindex = 3, 4
    return message


def post(port, body, kind, encoding):
    headers = {"Content-Type": kind, **({"Content-Encoding": encoding} if encoding else {})}
    call = urllib.request.Request(f"http://127.0.0.1:{port}/v1development/profiles", body, headers)
    with urllib.request.urlopen(call, timeout=120) as answer:
        said = answer.read()
    response = service.ExportProfilesServiceResponse()
    if kind == "application/json":
        json_format.Parse(said, response)
    else:
        response.ParseFromString(said)
    assert not response.HasField("partial_success"), response


def main(protocol, port, times):
    message = request()
    if protocol == "grpc":
        import grpc
        from opentelemetry.proto.collector.profiles.v1development import profiles_service_pb2_grpc as stubs
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = stubs.ProfilesServiceStub(channel)
            for i in range(times):
                how = grpc.Compression.Gzip if i % 2 else grpc.Compression.Deflate
                response = stub.Export(message, timeout=120, compression=how)
                assert not response.HasField("partial_success"), response
    else:
        kind = "application/json" if protocol == "json" else "application/x-protobuf"
        body = json_format.MessageToJson(message).encode() if protocol == "json" else message.SerializeToString()
        for i in range(times):
            post(port, gzip.compress(body) if i % 2 else body, kind, "gzip" if i % 2 else None)
    print(layout())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
