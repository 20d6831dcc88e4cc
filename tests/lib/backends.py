"""Destinations that take and refuse what real backends were seen to: Parca 3b5647c and Pyroscope 3fe6a45, November 2026.

Of Parca every case was tried on the real one; Pyroscope's are from its source and, where tried, from a run of its second version.
A request is refused whole, as they do it; what is stored is added up by kind, as a query would find it.
"""
import collections
import threading

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from opentelemetry.proto.collector.profiles.v1development import profiles_service_pb2 as service
from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.profiles.v1development import profiles_pb2
from opentelemetry.proto.resource.v1 import resource_pb2
from sink import Sink, plain

Request = service.ExportProfilesServiceRequest


class Refused(Exception):
    """What the backend says of a request it does not take."""


def request_1_9():
    """The message of 1.9, whose Sample numbers its fields otherwise (1.10 moved values behind attributes and link)."""
    pool = descriptor_pool.DescriptorPool()
    numbers = {"stack_index": 1, "values": 2, "attribute_indices": 3, "link_index": 4, "timestamps_unix_nano": 5}
    for module in (common_pb2, resource_pb2, profiles_pb2, service):
        file = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(file)
        for message in file.message_type:
            if message.name == "Sample":
                for field in message.field:
                    field.number = numbers[field.name]
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(Request.DESCRIPTOR.full_name))


def profiles_of(request):
    """(ResourceProfiles, ScopeProfiles, Profile), each."""
    for resource in request.resource_profiles:
        for scope in resource.scope_profiles:
            for profile in scope.profiles:
                yield resource, scope, profile


def kind_of(dictionary, value_type):
    return "/".join(dictionary.string_table[i] for i in (value_type.type_strindex, value_type.unit_strindex))


def totals_of(requests):
    """What a reader of the specification adds up: by type/unit; of samples with times alone each counts one."""
    sums = collections.Counter()
    for request in requests:
        for _, _, profile in profiles_of(request):
            sums[kind_of(request.dictionary, profile.sample_type)] += sum(
                sum(sample.values) if sample.values else len(sample.timestamps_unix_nano) for sample in profile.samples)
    return +sums


class Backend(Sink):
    """with Parca() as b: … b.stored: Σ by type/unit, b.requests: those taken, b.refusals: why others were not."""
    message = Request

    def __init__(self):
        super().__init__()
        self.requests, self.refusals, self.stored = [], [], collections.Counter()
        self.lock = threading.Lock()

    def take(self, path, headers, body):
        try:
            with self.lock:
                self.say(plain(headers, body))
        except Refused as e:
            self.refusals.append(str(e))
            return 400, b""

    def say(self, body):
        request = self.message.FromString(body)
        self.check(request)
        for _, _, profile in profiles_of(request):
            self.store(request.dictionary, profile)
        self.requests.append(request)

    def store(self, dictionary, profile):
        for sample in profile.samples:
            self.stored[kind_of(dictionary, profile.sample_type)] += self.worth(sample)

    @staticmethod
    def worth(sample):
        return sum(sample.values) if sample.values else len(sample.timestamps_unix_nano)

    def indices(self, dictionary, profile):
        for sample in profile.samples:
            if sample.stack_index >= len(dictionary.stack_table):
                raise Refused("stack index out of range")


class Parca(Backend):
    """A case that ends the real one is refused here, with "ends" in front."""
    request_max = 64 << 20

    def check(self, request):
        d = request.dictionary
        if request.ByteSize() > self.request_max:
            raise Refused("larger than 64 MiB")
        if not d.link_table or d.link_table[0].ByteSize() > 0:
            raise Refused("first link table entry must be nil")
        for resource, scope, profile in profiles_of(request):
            for owner, field in ((resource, "resource"), (scope, "scope"), (profile, "sample_type")):
                if not owner.HasField(field):
                    raise Refused(f"ends: no {field}")
            if any(a.key_strindex for a in resource.resource.attributes):
                raise Refused("references in a resource's attributes")
            if not profile.HasField("period_type"):
                raise Refused("period type is nil")
            if not profile.samples:
                raise Refused("a profile without samples")
            self.indices(d, profile)
            end = profile.time_unix_nano + profile.duration_nano
            for sample in profile.samples:
                if len(sample.values) > 1 and not sample.timestamps_unix_nano:
                    raise Refused("ends: two values without timestamps")
                if any(i >= len(d.attribute_table) for i in sample.attribute_indices):
                    raise Refused("attribute index out of range")
                if any(not profile.time_unix_nano <= t <= end for t in sample.timestamps_unix_nano):
                    raise Refused("a timestamp outside its profile")

    def store(self, dictionary, profile):
        if "-" not in kind_of(dictionary, profile.sample_type):  # stored, but no query can name it
            super().store(dictionary, profile)


class Pyroscope(Backend):
    profile_samples_max = 16000

    def check(self, request):
        d = request.dictionary
        for resource, _, profile in profiles_of(request):
            if "-" in kind_of(d, profile.sample_type):
                raise Refused("a hyphen in a sample type")
            if not profile.HasField("period_type"):
                raise Refused("no period_type")
            if len(profile.samples) > self.profile_samples_max:
                raise Refused("more than 16,000 samples in a profile")
            self.indices(d, profile)
            for sample in profile.samples:
                if len(sample.values) > 1:
                    raise Refused("several values a sample")
                if sample.values and sample.timestamps_unix_nano:
                    raise Refused("values and timestamps")

    def store(self, dictionary, profile):
        for sample in profile.samples:
            if all(i < len(dictionary.attribute_table) for i in sample.attribute_indices):  # else a 200 and nothing
                self.stored[kind_of(dictionary, profile.sample_type)] += self.worth(sample)


class OverGrpc:
    """Before a Backend: what it takes comes by gRPC, as its real one has it."""
    EXPORT = "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export"

    def start(self):
        import grpc
        from concurrent import futures

        def export(body, context):
            self.encodings.add(dict(context.invocation_metadata()).get("grpc-encoding"))
            try:
                with self.lock:
                    self.say(body)
            except Refused as e:
                self.refusals.append(str(e))
                context.abort(grpc.StatusCode.UNKNOWN, str(e))
            return b""

        self.encodings = set()
        self._grpc = grpc.server(futures.ThreadPoolExecutor(4), options=[("grpc.max_receive_message_length", -1)])
        self._grpc.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(
            self.EXPORT[1:].rpartition("/")[0], {"Export": grpc.unary_unary_rpc_method_handler(export)})])
        self.port = self._grpc.add_insecure_port("127.0.0.1:0")
        self._grpc.start()
        return self

    def stop(self):
        self._grpc.stop(None).wait()
