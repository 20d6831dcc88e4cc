/* SPDX-License-Identifier: Apache-2.0 */
/* needs: proto/schema descriptors */
/*
 * Server reflection: requests and answers made and read by protobuf-c's code for our schema.
 */
#include <stdlib.h>

#include "gateway/serve/calls/descriptors.h"
#include "gateway/serve/calls/reflection.h"
#include "proto/schema/reflection.pb-c.h"
#include "proto/wire/reader.h"
#include "tests/lib/unit.h"

typedef Grpc__Reflection__V1__ServerReflectionRequest Request;
typedef Grpc__Reflection__V1__ServerReflectionResponse Response;

#define SERVICE "opentelemetry.proto.collector.profiles.v1development"

static Response *ask(int what, const char *argument)
{
    Request q = GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__INIT;
    Grpc__Reflection__V1__ExtensionRequest extension = GRPC__REFLECTION__V1__EXTENSION_REQUEST__INIT;
    uint8_t packed[512];
    struct buffer out = BUFFER_INIT(0);
    q.message_request_case = what;
    q.host = (char *)"here";
    q.list_services = (char *)argument; /* the strings of the oneof share a place */
    if (what == 5) {
        extension.containing_type = (char *)argument;
        q.file_containing_extension = &extension;
    }
    size_t n = grpc__reflection__v1__server_reflection_request__pack(&q, packed);
    ck_assert_int_eq(reflection_answer(bytes_of(packed, n), &out), 0);
    Response *r = grpc__reflection__v1__server_reflection_response__unpack(NULL, out.n, out.p);
    buffer_release(&out);
    ck_assert_ptr_nonnull(r);
    ck_assert_str_eq(r->valid_host, "here");
    ck_assert_int_eq(r->original_request->message_request_case, what);
    return r;
}

static void done(Response *r)
{
    grpc__reflection__v1__server_reflection_response__free_unpacked(r, NULL);
}

/* The name in a FileDescriptorProto. */
static struct bytes file_name(ProtobufCBinaryData file)
{
    struct wire_reader r = wire_reader(bytes_of(file.data, file.len));
    struct wire_field f;
    ck_assert_int_eq(wire_next(&r, &f), 0);
    ck_assert_uint_eq(f.number, 1);
    return f.bytes;
}

static void wants_files(Response *r, size_t n, const char *first)
{
    ck_assert_int_eq(r->message_response_case, 4);
    Grpc__Reflection__V1__FileDescriptorResponse *f = r->file_descriptor_response;
    ck_assert_uint_eq(f->n_file_descriptor_proto, n);
    ck_assert(bytes_is(file_name(f->file_descriptor_proto[0]), first));
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++)
            ck_assert(
                !bytes_eq(file_name(f->file_descriptor_proto[i]), file_name(f->file_descriptor_proto[j])));
    done(r);
}

static void wants_error(Response *r)
{
    ck_assert_int_eq(r->message_response_case, 7);
    ck_assert_int_eq(r->error_response->error_code, 5);
    ck_assert_uint_gt(strlen(r->error_response->error_message), 0);
    done(r);
}

UNIT(every_service_is_listed)
{
    static const char *const want[] = {SERVICE ".ProfilesService", "grpc.health.v1.Health",
                                       "grpc.reflection.v1.ServerReflection",
                                       "grpc.reflection.v1alpha.ServerReflection"};
    Response *r = ask(7, "*");
    ck_assert_int_eq(r->message_response_case, 6);
    ck_assert_uint_eq(r->list_services_response->n_service, 4);
    for (size_t i = 0; i < 4; i++)
        ck_assert_str_eq(r->list_services_response->service[i]->name, want[i]);
    done(r);
}

UNIT(a_file_comes_first_and_with_all_it_imports)
{
    wants_files(ask(3, "grpc/health/v1/health.proto"), 1, "grpc/health/v1/health.proto");
    wants_files(ask(3, "opentelemetry/proto/collector/profiles/v1development/profiles_service.proto"), 4,
                "opentelemetry/proto/collector/profiles/v1development/profiles_service.proto");
    wants_error(ask(3, "health.proto"));
    wants_error(ask(3, ""));
}

UNIT(symbols_of_every_kind_are_found)
{
    static const char *const there[] = {
        "grpc.health.v1.Health",
        "grpc.health.v1.Health.Check",
        "grpc.health.v1.HealthCheckResponse",
        "grpc.health.v1.HealthCheckResponse.status",
        "grpc.health.v1.HealthCheckResponse.ServingStatus",
        "grpc.health.v1.HealthCheckResponse.NOT_SERVING",
        "grpc.health.v1.HealthListResponse.StatusesEntry.key",
    };
    static const char *const missing[] = {"",
                                          ".",
                                          "grpc",
                                          "grpc.health.v1",
                                          "grpc.health.v1.",
                                          "grpc.health.v1.Healt",
                                          "grpc.health.v1.Health.",
                                          "grpc.health.v1.Health.Chec",
                                          "grpc.health.v1.Health.Check.x",
                                          ".grpc.health.v1.Health",
                                          "grpc.health.v1..Health",
                                          "grpc.health.v1.HealthCheckResponse.ServingStatus.NOT_SERVING",
                                          "grpc.health.v1Health"};
    for (size_t i = 0; i < sizeof there / sizeof *there; i++)
        wants_files(ask(4, there[i]), 1, "grpc/health/v1/health.proto");
    for (size_t i = 0; i < sizeof missing / sizeof *missing; i++)
        wants_error(ask(4, missing[i]));
    wants_files(ask(4, SERVICE ".ProfilesService.Export"), 4,
                "opentelemetry/proto/collector/profiles/v1development/profiles_service.proto");
    wants_files(ask(4, "opentelemetry.proto.profiles.v1development.Sample"), 3,
                "opentelemetry/proto/profiles/v1development/profiles.proto");
}

UNIT(nothing_is_extended)
{
    wants_error(ask(5, "grpc.health.v1.HealthCheckResponse"));
    wants_error(ask(6, "grpc.health.v1.Nothing"));
    wants_error(ask(6, "grpc.health.v1.Health")); /* no message */
    Response *r = ask(6, "grpc.health.v1.HealthCheckResponse");
    ck_assert_int_eq(r->message_response_case, 5);
    ck_assert_str_eq(r->all_extension_numbers_response->base_type_name, "grpc.health.v1.HealthCheckResponse");
    ck_assert_uint_eq(r->all_extension_numbers_response->n_extension_number, 0);
    done(r);
}

UNIT(what_is_no_request_is_told)
{
    cleanup(buffer_release) struct buffer out = BUFFER_INIT(0);
    ck_assert_int_eq(reflection_answer(BYTES_LIT(""), &out), REFLECTION_EMPTY);
    ck_assert_int_eq(reflection_answer(BYTES_LIT("\x0a\x01h"), &out), REFLECTION_EMPTY);
    ck_assert_int_eq(reflection_answer(BYTES_LIT("\x3a\x05"), &out), REFLECTION_MALFORMED);
    ck_assert_int_eq(reflection_answer(BYTES_LIT("\x2a\x02\x0a\x05"), &out), REFLECTION_MALFORMED);
    ck_assert_int_eq(reflection_answer(BYTES_LIT("\x0a\x01\xff\x3a\0"), &out), REFLECTION_MALFORMED);
    ck_assert_uint_eq(out.n, 0);
    /* the last member of the oneof counts */
    ck_assert_int_eq(reflection_answer(BYTES_LIT("\x22\x01x\x3a\0"), &out), 0);
    ck_assert_ptr_nonnull(memmem(out.p, out.n, "grpc.health.v1.Health", 21));
}
