/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/pods/table.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/base/arena.h"
#include "proto/base/vec.h"
#include "proto/otlp/json/reader.h"
#include "proto/wire/reader.h"

/* Ids are 64 hex digits; some runtimes have others. */
#define ID_MAX 128u

struct container {
    struct bytes id;
    struct pods_names names;
};

struct pods_table {
    struct arena text;
    VEC(struct container) container; /* by id once sorted */
};

struct pods_table *pods_table_new(void)
{
    return calloc(1, sizeof(struct pods_table));
}

struct pods_table *pods_table_free(struct pods_table *t)
{
    if (!t)
        return NULL;
    vec_release(&t->container);
    arena_release(&t->text);
    free(t);
    return NULL;
}

static bool is_name(struct bytes name)
{
    return name.n > 0 && name.n <= PODS_NAME_MAX && bytes_is_utf8(name);
}

/* Copies a name; false: out of memory. What is no name stays none. */
static bool keep(struct pods_table *t, struct bytes from, struct bytes *ret)
{
    *ret = is_name(from) ? arena_copy(&t->text, from) : BYTES_LIT("");
    return ret->p != NULL;
}

static int add(struct pods_table *t, struct bytes id, const struct pods_names *names)
{
    struct container one;
    if (id.n == 0 || id.n > ID_MAX || !is_name(names->pod) || t->container.n == PODS_CONTAINERS_MAX)
        return 0;
    one.id = arena_copy(&t->text, id);
    if (!one.id.p || !keep(t, names->pod, &one.names.pod) || !keep(t, names->space, &one.names.space) ||
        !keep(t, names->container, &one.names.container))
        return -ENOMEM;
    return vec_append(&t->container, one);
}

/* ---- CRI: k8s.io/cri-api/pkg/apis/runtime/v1/api.proto ---- */

enum { RESPONSE_CONTAINERS = 1, CONTAINER_ID = 1, CONTAINER_SANDBOX = 2, CONTAINER_LABELS = 8 };

/* An entry of a map<string, string>: { key = 1; value = 2; }. */
static void read_label(struct bytes entry, struct pods_names *ret)
{
    struct bytes key = {0}, value = {0};
    struct wire_reader r = wire_reader(entry);
    for (struct wire_field f; wire_next(&r, &f) == 0;) {
        if (f.number == 1 && f.type == WIRE_LEN)
            key = f.bytes;
        else if (f.number == 2 && f.type == WIRE_LEN)
            value = f.bytes;
    }
    if (bytes_is(key, "io.kubernetes.pod.name"))
        ret->pod = value;
    else if (bytes_is(key, "io.kubernetes.pod.namespace"))
        ret->space = value;
    else if (bytes_is(key, "io.kubernetes.container.name"))
        ret->container = value;
}

static int read_container(struct pods_table *t, struct bytes message)
{
    struct bytes id = {0}, sandbox = {0};
    struct pods_names names = {0};
    struct wire_reader r = wire_reader(message);
    for (struct wire_field f; wire_next(&r, &f) == 0;) {
        if (f.type != WIRE_LEN)
            continue;
        if (f.number == CONTAINER_ID)
            id = f.bytes;
        else if (f.number == CONTAINER_SANDBOX)
            sandbox = f.bytes;
        else if (f.number == CONTAINER_LABELS)
            read_label(f.bytes, &names);
    }
    /* What holds the pod's namespaces is its container, too, and of nobody's name. */
    const struct pods_names of_sandbox = {names.pod, names.space, BYTES_LIT("")};
    int result = add(t, id, &names);
    return result < 0 ? result : add(t, sandbox, &of_sandbox);
}

int pods_table_read_cri(struct pods_table *t, struct bytes message)
{
    struct wire_reader r = wire_reader(message);
    int result = 0;
    for (struct wire_field f; result == 0 && wire_next(&r, &f) == 0;)
        if (f.number == RESPONSE_CONTAINERS && f.type == WIRE_LEN)
            result = read_container(t, f.bytes);
    return result;
}

/* ---- the kubelet: core/v1 PodList ---- */

/* A pod that is being read: its metadata may come behind its containers. */
struct pod {
    struct pods_names names;
    uint32_t first; /* of its containers in the table */
};

struct listing {
    struct pods_table *table;
    struct json_reader r;
    struct json_token token;
};

static int next(struct listing *l)
{
    return json_next(&l->r, &l->token) ? PODS_MALFORMED : 0;
}

static int skip(struct listing *l)
{
    return json_skip(&l->r, l->token.kind) ? PODS_MALFORMED : 0;
}

/* Reads an object: `take` is called behind each key, with the first token of its value, and reads that whole.
 * Another value than an object is passed over. */
static int each_member(struct listing *l, int (*take)(struct listing *, struct bytes key, void *), void *of)
{
    if (l->token.kind != JSON_OBJECT)
        return skip(l);
    int r = next(l);
    while (r == 0 && l->token.kind == JSON_KEY) {
        struct bytes key = l->token.text;
        r = next(l);
        r = r ? r : take(l, key, of);
        r = r ? r : next(l);
    }
    return r;
}

/* The same for the elements of a list. */
static int each_element(struct listing *l, int (*take)(struct listing *, void *), void *of)
{
    if (l->token.kind != JSON_LIST)
        return skip(l);
    int r = next(l);
    while (r == 0 && l->token.kind != JSON_LIST_END) {
        r = take(l, of);
        r = r ? r : next(l);
    }
    return r;
}

/* Names have no characters that are escaped. */
static struct bytes text_of(const struct listing *l)
{
    return l->token.kind == JSON_STRING && !l->token.escaped ? l->token.text : BYTES_LIT("");
}

static int take_metadata(struct listing *l, struct bytes key, void *of)
{
    struct pod *pod = of;
    if (bytes_is(key, "name"))
        pod->names.pod = text_of(l);
    else if (bytes_is(key, "namespace"))
        pod->names.space = text_of(l);
    return skip(l);
}

struct status {
    struct bytes id, name;
};

static int take_status_member(struct listing *l, struct bytes key, void *of)
{
    struct status *status = of;
    if (bytes_is(key, "name"))
        status->name = text_of(l);
    else if (bytes_is(key, "containerID")) /* "containerd://<id>" */
        status->id = bytes_after_last(text_of(l), '/');
    return skip(l);
}

static int take_container(struct listing *l, void *of)
{
    struct status status = {0};
    int r = each_member(l, take_status_member, &status);
    const struct pods_names names = {BYTES_LIT("?"), BYTES_LIT(""), status.name};
    return r ? r : add(l->table, status.id, &names);
}

static int take_status(struct listing *l, struct bytes key, void *of)
{
    bool is_containers = bytes_is(key, "containerStatuses") || bytes_is(key, "initContainerStatuses") ||
                         bytes_is(key, "ephemeralContainerStatuses");
    return is_containers ? each_element(l, take_container, of) : skip(l);
}

static int take_pod_member(struct listing *l, struct bytes key, void *of)
{
    if (bytes_is(key, "metadata"))
        return each_member(l, take_metadata, of);
    return bytes_is(key, "status") ? each_member(l, take_status, of) : skip(l);
}

static int take_pod(struct listing *l, void *of)
{
    struct pods_table *t = l->table;
    struct pod pod = {.first = t->container.n};
    struct bytes name, space;
    int r = each_member(l, take_pod_member, &pod);
    if (r)
        return r;
    if (!keep(t, pod.names.pod, &name) || !keep(t, pod.names.space, &space))
        return -ENOMEM;
    for (uint32_t i = pod.first; i < t->container.n; i++) {
        t->container.p[i].names.pod = name;
        t->container.p[i].names.space = space;
    }
    return 0;
}

static int take_top_member(struct listing *l, struct bytes key, void *of)
{
    return bytes_is(key, "items") ? each_element(l, take_pod, of) : skip(l);
}

int pods_table_read_list(struct pods_table *t, struct bytes json)
{
    struct listing l = {.table = t, .r = json_reader(json)};
    int r = next(&l);
    if (r == 0 && l.token.kind != JSON_OBJECT)
        return PODS_MALFORMED;
    return r ? r : each_member(&l, take_top_member, NULL);
}

/* ---- asking it ---- */

static int by_id(const void *a, const void *b)
{
    return bytes_compare(((const struct container *)a)->id, ((const struct container *)b)->id);
}

void pods_table_sort(struct pods_table *t)
{
    if (t->container.n)
        qsort(t->container.p, t->container.n, sizeof *t->container.p, by_id);
}

bool pods_table_find(const struct pods_table *t, struct bytes id, struct pods_names *ret)
{
    const struct container key = {.id = id};
    const struct container *found =
        t->container.n ? bsearch(&key, t->container.p, t->container.n, sizeof key, by_id) : NULL;
    if (!found || found->names.pod.n == 0)
        return false;
    *ret = found->names;
    return true;
}

bool pods_table_is_more(const struct pods_table *t, const struct pods_table *than)
{
    struct pods_names unused;
    for (uint32_t i = 0; i < t->container.n; i++)
        if (t->container.p[i].names.pod.n && !pods_table_find(than, t->container.p[i].id, &unused))
            return true;
    return false;
}
