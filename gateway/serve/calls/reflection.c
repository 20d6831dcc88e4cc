/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/serve/calls/reflection.h"

#include "gateway/serve/calls/call.h"
#include "gateway/serve/calls/descriptors.h"
#include "proto/wire/reader.h"
#include "proto/wire/writer.h"

enum {
    REQUEST_HOST = 1,
    REQUEST_FILE = 3,
    REQUEST_SYMBOL = 4,
    REQUEST_EXTENSION = 5,
    REQUEST_NUMBERS = 6,
    REQUEST_LIST = 7,
};
enum { EXTENSION_TYPE = 1 };
enum {
    RESPONSE_HOST = 1,
    RESPONSE_REQUEST = 2,
    RESPONSE_FILES = 4,
    RESPONSE_NUMBERS = 5,
    RESPONSE_LIST = 6,
    RESPONSE_ERROR = 7,
};
enum { FILES_FILE = 1, NUMBERS_TYPE = 1, LIST_SERVICE = 1, SERVICE_NAME = 1, ERROR_CODE = 1, ERROR_TEXT = 2 };

struct request {
    struct bytes host;
    uint32_t what;         /* the member of the oneof; 0: none */
    struct bytes argument; /* of REQUEST_EXTENSION: its containing_type */
};

static int read_type(struct bytes extension, struct bytes *ret)
{
    struct wire_reader r = wire_reader(extension);
    struct wire_field f;
    int e;
    *ret = BYTES_LIT("");
    while ((e = wire_next(&r, &f)) == 0)
        if (f.number == EXTENSION_TYPE && f.type == WIRE_LEN)
            *ret = f.bytes;
    return e == WIRE_END ? 0 : REFLECTION_MALFORMED;
}

static int read_request(struct bytes message, struct request *ret)
{
    struct wire_reader r = wire_reader(message);
    struct wire_field f;
    int e;
    *ret = (struct request){.host = BYTES_LIT("")};
    while ((e = wire_next(&r, &f)) == 0) {
        if (f.type != WIRE_LEN)
            continue;
        if (f.number == REQUEST_HOST) {
            ret->host = f.bytes;
        } else if (f.number >= REQUEST_FILE &&
                   f.number <= REQUEST_LIST) { /* of a oneof the last one counts */
            ret->what = f.number;
            ret->argument = f.bytes;
        }
    }
    if (e != WIRE_END)
        return REFLECTION_MALFORMED;
    if (ret->what == 0)
        return REFLECTION_EMPTY;
    if (ret->what == REQUEST_EXTENSION && read_type(ret->argument, &ret->argument) != 0)
        return REFLECTION_MALFORMED;
    return bytes_is_utf8(ret->host) && bytes_is_utf8(ret->argument) ? 0 : REFLECTION_MALFORMED;
}

static void put_error(struct wire_writer *w, const char *text)
{
    size_t error = wire_begin(w, RESPONSE_ERROR);
    wire_put_uint(w, ERROR_CODE, GRPC_NOT_FOUND);
    wire_put_bytes(w, ERROR_TEXT, bytes_str(text));
    wire_end(w, error);
}

static void put_file(struct wire_writer *w, int file, const char *missing)
{
    if (file == DESCRIPTORS_NONE) {
        put_error(w, missing);
        return;
    }
    size_t files = wire_begin(w, RESPONSE_FILES);
    descriptors_write(file, w, FILES_FILE);
    wire_end(w, files);
}

/* No message of ours can be extended (proto3), so that the list of a known type is empty. */
static void put_numbers(struct wire_writer *w, struct bytes type)
{
    bool is_message = false;
    if (descriptors_find_symbol(type, &is_message) == DESCRIPTORS_NONE || !is_message) {
        put_error(w, "no message of this name");
        return;
    }
    size_t numbers = wire_begin(w, RESPONSE_NUMBERS);
    wire_put_bytes(w, NUMBERS_TYPE, type);
    wire_end(w, numbers);
}

static void put_service(void *user, struct bytes package, struct bytes name)
{
    struct wire_writer *w = user;
    size_t service = wire_begin(w, LIST_SERVICE), n = package.n + 1 + name.n;
    wire_put_varint(w, WIRE_TAG(SERVICE_NAME, WIRE_LEN));
    wire_put_varint(w, n);
    wire_put_raw(w, package);
    wire_put_raw(w, BYTES_LIT("."));
    wire_put_raw(w, name);
    wire_end(w, service);
}

static void put_services(struct wire_writer *w)
{
    size_t list = wire_begin(w, RESPONSE_LIST);
    descriptors_services(put_service, w);
    wire_end(w, list);
}

int reflection_answer(struct bytes message, struct buffer *out)
{
    struct request q;
    int e = read_request(message, &q);
    if (e != 0)
        return e;
    struct wire_writer w = wire_writer(out);
    wire_put_bytes_nonempty(&w, RESPONSE_HOST, q.host);
    wire_put_bytes(&w, RESPONSE_REQUEST, message);
    switch (q.what) {
    case REQUEST_FILE: put_file(&w, descriptors_find_file(q.argument), "no file of this name"); break;
    case REQUEST_SYMBOL:
        put_file(&w, descriptors_find_symbol(q.argument, NULL), "nothing of this name");
        break;
    case REQUEST_EXTENSION: put_error(&w, "no message here has extensions"); break;
    case REQUEST_NUMBERS: put_numbers(&w, q.argument); break;
    default: put_services(&w); break;
    }
    return w.failed;
}

void reflection_message(struct call *c, struct bytes message)
{
    struct buffer *out = call_message(c);
    if (!out)
        return;
    switch (reflection_answer(message, out)) {
    case 0: call_send(c); break;
    case REFLECTION_MALFORMED: call_end(c, GRPC_INVALID_ARGUMENT, "malformed ServerReflectionRequest"); break;
    case REFLECTION_EMPTY: call_end(c, GRPC_INVALID_ARGUMENT, "the request asks for nothing"); break;
    default: call_end(c, GRPC_RESOURCE_EXHAUSTED, "out of memory just now"); break;
    }
}
