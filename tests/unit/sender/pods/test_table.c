/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <string.h>

#include "proto/wire/writer.h"
#include "sender/pods/table.h"

static struct pods_names names;

static const char *found(const struct pods_table *t, const char *id)
{
    static char text[1024];
    if (!pods_table_find(t, bytes_str(id), &names))
        return "";
    snprintf(text, sizeof text, "%.*s/%.*s/%.*s", BYTES_FMT(names.space), BYTES_FMT(names.pod),
             BYTES_FMT(names.container));
    return text;
}

static void label(struct wire_writer *w, const char *key, const char *value)
{
    size_t mark = wire_begin(w, 8);
    wire_put_bytes(w, 1, bytes_str(key));
    wire_put_bytes(w, 2, bytes_str(value));
    wire_end(w, mark);
}

/* A container as containerd tells of it, with more than we look at. */
static void container(struct wire_writer *w, const char *id, const char *pod, const char *name)
{
    size_t mark = wire_begin(w, 1);
    wire_put_bytes(w, 1, bytes_str(id));
    wire_put_bytes(w, 2, BYTES_LIT("sandbox-1"));
    wire_put_bytes(w, 3,
                   BYTES_LIT("\x0a\x03"
                             "app"));
    wire_put_uint(w, 6, 1);
    wire_put_uint(w, 7, 1700000000000000000u);
    label(w, "io.kubernetes.pod.uid", "6f1c4c1e-1f1d-4a7e-9a3b-000000000001");
    if (pod)
        label(w, "io.kubernetes.pod.name", pod);
    label(w, "io.kubernetes.pod.namespace", "shop");
    label(w, "io.kubernetes.container.name", name);
    wire_end(w, mark);
}

UNIT(a_runtime_s_list)
{
    cleanup(buffer_release) struct buffer out = {0};
    struct wire_writer w = wire_writer(&out);
    container(&w, "b", "cart-0", "app");
    container(&w, "a", "cart-0", "proxy");
    container(&w, "c", NULL, "nobody's"); /* nobody's pod: not Kubernetes' */
    container(&w, "", "cart-0", "x");
    ck_assert_int_eq(w.failed, 0);
    struct pods_table *t = unit_made(pods_table_new());
    unit_made(pods_table_read_cri(t, buffer_bytes(&out)) == 0 ? t : NULL);
    pods_table_sort(t);
    ck_assert_str_eq(found(t, "a"), "shop/cart-0/proxy");
    ck_assert_str_eq(found(t, "b"), "shop/cart-0/app");
    ck_assert_str_eq(found(t, "sandbox-1"), "shop/cart-0/");
    ck_assert_str_eq(found(t, "c"), "");
    ck_assert_str_eq(found(t, ""), "");
    pods_table_free(t);
    for (size_t n = 0; n < out.n; n++) { /* cut short: what there is, and nothing beyond */
        t = unit_made(pods_table_new());
        ck_assert_int_le(pods_table_read_cri(t, bytes_of(out.p, n)), 0);
        pods_table_sort(t);
        pods_table_free(t);
    }
}

#define LIST                                                                                                          \
    "{\"kind\":\"PodList\",\"metadata\":{},\"items\":[{\"status\":{\"phase\":\"Running\",\"initContainerStatuses\":[" \
    "{\"name\":\"init\",\"containerID\":\"containerd://i1\"}],\"containerStatuses\":[{\"containerID\":"               \
    "\"cri-o://c1\",\"name\":\"app\",\"state\":{\"running\":{}}},{\"name\":\"waits\"},{\"name\":\"b\\u0061d\","       \
    "\"containerID\":\"docker://c2\"}]},\"metadata\":{\"name\":\"cart-0\",\"namespace\":\"shop\",\"labels\":{"        \
    "\"name\":\"evil\"}}},{\"metadata\":{\"name\":\"none\"}},{\"metadata\":{\"name\":\"x\"},\"status\":[1]}]}"

UNIT(a_kubelet_s_list)
{
    struct pods_table *t = unit_made(pods_table_new());
    unit_made(pods_table_read_list(t, BYTES_LIT(LIST)) == 0 ? t : NULL);
    pods_table_sort(t);
    ck_assert_str_eq(found(t, "c1"), "shop/cart-0/app");
    ck_assert_str_eq(found(t, "i1"), "shop/cart-0/init");
    ck_assert_str_eq(found(t, "c2"), "shop/cart-0/"); /* no name has an escape in it */
    pods_table_free(t);
}

UNIT(what_is_no_list_of_pods_is_refused)
{
    static const char *const bad[] = {"",       "[]", "{\"items\":[", "{\"items\":[{\"metadata\":}]}",
                                      "<html>", "1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct pods_table *t = unit_made(pods_table_new());
        ck_assert_msg(pods_table_read_list(t, bytes_str(bad[i])) == PODS_MALFORMED, "%s", bad[i]);
        pods_table_free(t);
    }
    struct pods_table *t = unit_made(pods_table_new());
    ck_assert_int_eq(pods_table_read_list(t, BYTES_LIT("{\"items\":null}")), 0);
    ck_assert_str_eq(found(t, "c1"), "");
    pods_table_free(t);
    ck_assert_ptr_null(pods_table_free(NULL));
}

UNIT(names_that_are_none_are_left_out)
{
    struct buffer out = {0};
    struct wire_writer w = wire_writer(&out);
    char longer[PODS_NAME_MAX + 2];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    container(&w, "a", longer, "app");
    container(&w, "b", "cart-0", longer);
    container(&w, "c", "caf\xff", "app");
    struct pods_table *t = unit_made(pods_table_new());
    unit_made(pods_table_read_cri(t, buffer_bytes(&out)) == 0 ? t : NULL);
    pods_table_sort(t);
    ck_assert_str_eq(found(t, "a"), "");
    ck_assert_str_eq(found(t, "b"), "shop/cart-0/");
    ck_assert_str_eq(found(t, "c"), "");
    buffer_release(&out);
    pods_table_free(t);
}

UNIT(a_node_has_so_many_containers_and_no_more)
{
    struct buffer out = {0};
    struct wire_writer w = wire_writer(&out);
    char id[16];
    for (uint32_t i = 0; i < PODS_CONTAINERS_MAX; i++) {
        snprintf(id, sizeof id, "c%u", i);
        container(&w, id, "cart-0", "app");
    }
    struct pods_table *t = unit_made(pods_table_new()), *few = unit_made(pods_table_new());
    unit_made(w.failed == 0 && pods_table_read_cri(t, buffer_bytes(&out)) == 0 ? t : NULL);
    pods_table_sort(t);
    ck_assert_str_eq(found(t, "c0"), "shop/cart-0/app");
    ck_assert_str_eq(found(t, "c8191"), "");
    ck_assert(pods_table_is_more(t, few) && !pods_table_is_more(few, t) && !pods_table_is_more(t, t));
    buffer_release(&out);
    pods_table_free(t);
    pods_table_free(few);
}
