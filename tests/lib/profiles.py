"""A receiver of OTLP profiles over HTTP that keeps every stack by name: what profsend saw, without a gateway between."""
import collections
import gzip
import http.server
import threading

Stack = collections.namedtuple("Stack", "pid thread names files kinds incomplete first")


class Receiver:
    """with Receiver() as r: … r.url is the endpoint; r.stacks counts hits by Stack (names leaf first).

    Stack.first: the hit was less than `first` seconds after the first one of its process.
    """

    def __init__(self, first=0.0):
        self.first_ns = int(first * 1e9)
        self.begun = {}

    def __enter__(self):
        from opentelemetry.proto.collector.profiles.v1development import profiles_service_pb2 as service
        receiver = self
        self.stacks = collections.Counter()
        self.errors = []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                try:
                    if self.headers["Content-Encoding"] == "gzip":
                        body = gzip.decompress(body)
                    request = service.ExportProfilesServiceRequest.FromString(body)
                    receiver._add(request)
                except Exception as e:  # noqa: BLE001: a test looks at errors
                    receiver.errors.append(repr(e))
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *arguments):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *unused):
        self.server.shutdown()
        self.server.server_close()

    def of(self, pid):
        """Hits by stack of one process."""
        return {stack: hits for stack, hits in self.stacks.items() if stack.pid == pid}

    def _add(self, request):
        d = request.dictionary

        def attributes(indices):
            found = {}
            for i in indices:
                a = d.attribute_table[i]
                kind = a.value.WhichOneof("value")
                found[d.string_table[a.key_strindex]] = getattr(a.value, kind) if kind else None
            return found

        frames = []
        for location in d.location_table:
            name = ""
            if location.lines:
                function = d.function_table[location.lines[0].function_index]
                name = d.string_table[function.name_strindex]
            mapping = d.mapping_table[location.mapping_index]
            frames.append((name or hex(location.address), d.string_table[mapping.filename_strindex],
                           attributes(location.attribute_indices).get("profile.frame.type")))
        begun = {}
        for resource in request.resource_profiles:
            pid = next((a.value.int_value for a in resource.resource.attributes if a.key == "process.pid"), None)
            times = [t for scope in resource.scope_profiles for profile in scope.profiles for sample in profile.samples
                     for t in sample.timestamps_unix_nano]
            begun[pid] = min(times + [begun.get(pid, 1 << 63)])
        for resource in request.resource_profiles:
            pid = next((a.value.int_value for a in resource.resource.attributes if a.key == "process.pid"), None)
            for scope in resource.scope_profiles:
                for profile in scope.profiles:
                    for sample in profile.samples:
                        own = attributes(sample.attribute_indices)
                        stack = [frames[i] for i in d.stack_table[sample.stack_index].location_indices]
                        names, files, kinds = zip(*stack) if stack else ((), (), ())
                        key = Stack(pid, own.get("thread.name"), names, files, kinds, own.get("profsend.stack.incomplete"), False)
                        for when in sample.timestamps_unix_nano:
                            late = when - self.begun.setdefault(pid, begun[pid]) >= self.first_ns
                            self.stacks[key if late else key._replace(first=True)] += 1
