// Sends the known profile (../README.md) with Java's generated OTLP code: Producer http|grpc PORT TIMES.
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.opentelemetry.proto.collector.profiles.v1development.ExportProfilesServiceRequest;
import io.opentelemetry.proto.collector.profiles.v1development.ExportProfilesServiceResponse;
import io.opentelemetry.proto.collector.profiles.v1development.ProfilesServiceGrpc;
import io.opentelemetry.proto.common.v1.AnyValue;
import io.opentelemetry.proto.common.v1.InstrumentationScope;
import io.opentelemetry.proto.common.v1.KeyValue;
import io.opentelemetry.proto.profiles.v1development.*;
import io.opentelemetry.proto.resource.v1.Resource;
import java.io.ByteArrayOutputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.List;
import java.util.zip.GZIPOutputStream;

public final class Producer {
    static final long START = 1_760_000_000_000_000_000L;

    static AnyValue text(String s) {
        return AnyValue.newBuilder().setStringValue(s).build();
    }

    static ProfilesDictionary dictionary() {
        ProfilesDictionary.Builder d = ProfilesDictionary.newBuilder()
            .addAllStringTable(List.of("", "samples", "count", "cpu", "nanoseconds", "profile.frame.type", "do_idle", "main", "runtime.mcall"))
            .addMappingTable(Mapping.getDefaultInstance())
            .addLinkTable(Link.getDefaultInstance())
            .addFunctionTable(Function.getDefaultInstance())
            .addAttributeTable(KeyValueAndUnit.getDefaultInstance())
            .addLocationTable(Location.getDefaultInstance())
            .addStackTable(Stack.getDefaultInstance())
            .addStackTable(Stack.newBuilder().addLocationIndices(1).addLocationIndices(2))
            .addStackTable(Stack.newBuilder().addLocationIndices(2))
            .addStackTable(Stack.newBuilder().addLocationIndices(3).addLocationIndices(2));
        int i = 1;
        for (String kind : List.of("kernel", "native", "go")) {
            d.addFunctionTable(Function.newBuilder().setNameStrindex(5 + i));
            d.addAttributeTable(KeyValueAndUnit.newBuilder().setKeyStrindex(5).setValue(text(kind)));
            d.addLocationTable(Location.newBuilder().setAddress(4096L * i).addAttributeIndices(i)
                .addLines(Line.newBuilder().setFunctionIndex(i)));
            i++;
        }
        return d.build();
    }

    static ExportProfilesServiceRequest request() {
        Profile profile = Profile.newBuilder()
            .setSampleType(ValueType.newBuilder().setTypeStrindex(1).setUnitStrindex(2))
            .setPeriodType(ValueType.newBuilder().setTypeStrindex(3).setUnitStrindex(4))
            .setPeriod(1_000_000_000L / 19).setTimeUnixNano(START).setDurationNano(5_000_000_000L)
            .addSamples(Sample.newBuilder().setStackIndex(1).addValues(1).addAttributeIndices(1))
            .addSamples(Sample.newBuilder().setStackIndex(2).addValues(1).addValues(1).addAttributeIndices(2)
                .addTimestampsUnixNano(START).addTimestampsUnixNano(START + 1))
            .addSamples(Sample.newBuilder().setStackIndex(3).addValues(1).addAttributeIndices(3))
            .build();
        return ExportProfilesServiceRequest.newBuilder()
            .setDictionary(dictionary())
            .addResourceProfiles(ResourceProfiles.newBuilder()
                .setResource(Resource.newBuilder().addAttributes(KeyValue.newBuilder().setKey("service.name").setValue(text("known"))))
                .addScopeProfiles(ScopeProfiles.newBuilder()
                    .setScope(InstrumentationScope.newBuilder().setName("producer-java"))
                    .addProfiles(profile)))
            .build();
    }

    static void check(ExportProfilesServiceResponse response) {
        if (response.hasPartialSuccess())
            throw new IllegalStateException(response.toString());
    }

    static void http(String port, int times) throws Exception {
        HttpClient client = HttpClient.newHttpClient(); // tries HTTP/2 by upgrade, which HTTP/1.1 servers may ignore
        byte[] plain = request().toByteArray();
        ByteArrayOutputStream packed = new ByteArrayOutputStream();
        try (GZIPOutputStream out = new GZIPOutputStream(packed)) {
            out.write(plain);
        }
        for (int i = 0; i < times; i++) {
            HttpRequest.Builder call = HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + port + "/v1development/profiles"))
                .header("Content-Type", "application/x-protobuf");
            if (i % 2 == 1)
                call.header("Content-Encoding", "gzip");
            call.POST(HttpRequest.BodyPublishers.ofByteArray(i % 2 == 1 ? packed.toByteArray() : plain));
            HttpResponse<byte[]> answer = client.send(call.build(), HttpResponse.BodyHandlers.ofByteArray());
            if (answer.statusCode() != 200)
                throw new IllegalStateException("HTTP " + answer.statusCode());
            check(ExportProfilesServiceResponse.parseFrom(answer.body()));
        }
    }

    static void grpc(String port, int times) throws Exception {
        ManagedChannel channel = ManagedChannelBuilder.forAddress("127.0.0.1", Integer.parseInt(port)).usePlaintext().build();
        ProfilesServiceGrpc.ProfilesServiceBlockingStub stub = ProfilesServiceGrpc.newBlockingStub(channel);
        for (int i = 0; i < times; i++)
            check((i % 2 == 1 ? stub.withCompression("gzip") : stub).export(request()));
        channel.shutdownNow();
    }

    public static void main(String[] args) throws Exception {
        int times = Integer.parseInt(args[2]);
        if (args[0].equals("grpc"))
            grpc(args[1], times);
        else
            http(args[1], times);
    }
}
