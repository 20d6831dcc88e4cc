/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <string.h>

#include "sender/procs/identity.h"

static struct identity id;

static const char *text(const char *key)
{
    static char copy[2048];
    struct bytes b = identity_text(&id, key);
    snprintf(copy, sizeof copy, "%.*s", BYTES_FMT(b));
    return copy;
}

UNIT(the_variable_is_pairs_percent_encoded)
{
    identity_variable(&id, bytes_str("service.name=shop, deployment.environment.name=a%2Cb%20c ,x=,"
                                     "service.name=second"));
    ck_assert_uint_eq(id.n, 3);
    ck_assert_str_eq(text("service.name"), "shop"); /* the first stays */
    ck_assert_str_eq(text("deployment.environment.name"), "a,b c");
    identity_release(&id);
}

UNIT(a_malformed_variable_counts_for_nothing)
{
    static const char *const bad[] = {"service.name=shop,novalue", "a=%2", "a=%zz", "=x", "a=1,%"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        identity_variable(&id, bytes_str(bad[i]));
        ck_assert_msg(id.n == 0, "%s", bad[i]);
    }
    identity_variable(&id, bytes_of(NULL, 0));
    identity_release(&id);
}

UNIT(nobody_may_claim_our_facts)
{
    identity_variable(&id, bytes_str("process.pid=1,host.name=evil,os.type=x,container.id=y,k8s.pod.uid=z,"
                                     "process.runtime.name=cpython"));
    ck_assert_uint_eq(id.n, 1);
    ck_assert_str_eq(text("process.runtime.name"), "cpython");
    identity_release(&id);
}

/* A field of protobuf, bytes shorter than 128. */
static size_t field(uint8_t *to, unsigned number, const void *p, size_t n)
{
    to[0] = (uint8_t)(number << 3 | 2);
    to[1] = (uint8_t)n;
    memcpy(to + 2, p, n);
    return n + 2;
}

/* KeyValue { key, value { field `kind`: bytes } } as field 2 of a ProcessContext. */
static size_t reference(uint8_t *to, const char *key, unsigned kind, const void *p, size_t n)
{
    uint8_t value[128], both[128];
    size_t at = field(both, 1, key, strlen(key));
    at += field(both + at, 2, value, field(value, kind, p, n));
    return field(to, 2, both, at);
}

UNIT(how_threads_say_what_they_work_for_is_read)
{
    static const char *const names[] = {"http.route", "", "thread\xff", "process.pid", "user"};
    uint8_t payload[256], list[128], name[64];
    size_t n = 0, n_list = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        n_list += field(list + n_list, 1, name, field(name, 1, names[i], strlen(names[i])));
    n += reference(payload, "threadlocal.schema_version", 1, "tls_v1", 6);
    n += reference(payload + n, "threadlocal.attribute_key_map", 5, list, n_list);
    identity_context(&id, bytes_of(payload, n));
    ck_assert_uint_eq(id.n, 0); /* none of it is the resource's */
    ck_assert(bytes_is(id.schema, "tls_v1"));
    ck_assert_uint_eq(id.n_keys, 5);
    ck_assert(bytes_is(id.key[0], "http.route") && bytes_is(id.key[4], "user"));
    for (int i = 1; i < 4; i++) /* empty, no UTF-8, ours: their numbers stay taken */
        ck_assert_uint_eq(id.key[i].n, 0);
    identity_release(&id);
    ck_assert(id.schema.n == 0 && id.n_keys == 0);
    for (size_t less = 0; less < n; less++) {
        identity_context(&id, bytes_of(payload, less));
        identity_release(&id);
    }
}

UNIT(a_process_context_is_read)
{
    /* ProcessContext{resource{attributes{key "service.name" value{string "ctx"}},
     *                         attributes{key "n" value{int 7}}}} */
    static const uint8_t payload[] = {0x0a, 0x24, 0x0a, 0x15, 0x0a, 0x0c, 's',  'e',  'r',  'v',
                                      'i',  'c',  'e',  '.',  'n',  'a',  'm',  'e',  0x12, 0x05,
                                      0x0a, 0x03, 'c',  't',  'x',  0x0a, 0x07, 0x0a, 0x01, 'n',
                                      0x12, 0x02, 0x18, 0x07, 0x1a, 0x02, 'z',  'z'};
    identity_context(&id, bytes_of(payload, sizeof payload));
    ck_assert_str_eq(text("service.name"), "ctx");
    ck_assert_uint_eq(id.n, 2);
    ck_assert_int_eq(id.attr[1].value.integer, 7);
    identity_release(&id);
    for (size_t n = 0; n < sizeof payload; n++) { /* cut anywhere, it is read as far as it goes */
        identity_context(&id, bytes_of(payload, n));
        identity_release(&id);
    }
}

UNIT(there_is_room_for_so_much)
{
    char long_value[IDENTITY_TEXT_MAX + 32] = "k=";
    memset(long_value + 2, 'v', IDENTITY_TEXT_MAX + 1);
    identity_variable(&id, bytes_str(long_value));
    ck_assert_uint_eq(id.n, 0);
    for (int i = 0; i < 100; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%d", i);
        identity_add(&id, bytes_str(key), (struct attr_value){.kind = ATTR_INT, .integer = i});
    }
    ck_assert_uint_eq(id.n, IDENTITY_MAX);
    identity_release(&id);
}

UNIT(a_pod_is_known_by_its_cgroup)
{
    identity_pod(&id, bytes_str("0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-"
                                "pod01234567_89ab_cdef_0123_456789abcdef.slice/cri-containerd-x.scope\n"));
    ck_assert_str_eq(text("k8s.pod.uid"), "01234567-89ab-cdef-0123-456789abcdef");
    identity_release(&id);
    identity_pod(&id, bytes_str("0::/kubepods/besteffort/pod01234567-89ab-cdef-0123-456789abcdef/x\n"));
    ck_assert_str_eq(text("k8s.pod.uid"), "01234567-89ab-cdef-0123-456789abcdef");
    identity_release(&id);
    identity_pod(&id, bytes_str("0::/user.slice/podman-1234.scope\n"));
    ck_assert_uint_eq(id.n, 0);
    identity_release(&id);
}

UNIT(a_header_is_believed_only_when_whole)
{
    struct {
        char signature[8];
        uint32_t version, size;
        uint64_t published, payload;
    } h = {{'O', 'T', 'E', 'L', '_', 'C', 'T', 'X'}, 2, 10, 5, 0x1000};
    struct identity_header got;
    ck_assert(identity_header(bytes_of(&h, sizeof h), &got));
    ck_assert(got.payload == 0x1000 && got.size == 10 && got.published == 5);
    ck_assert(!identity_header(bytes_of(&h, sizeof h - 1), &got));
    h.published = 0; /* being written */
    ck_assert(!identity_header(bytes_of(&h, sizeof h), &got));
    h.published = 5, h.version = 1;
    ck_assert(!identity_header(bytes_of(&h, sizeof h), &got));
    h.version = 2, h.size = IDENTITY_BYTES_MAX + 1;
    ck_assert(!identity_header(bytes_of(&h, sizeof h), &got));
    h.size = 1, h.signature[0] = 'X';
    ck_assert(!identity_header(bytes_of(&h, sizeof h), &got));
}
