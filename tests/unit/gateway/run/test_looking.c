/* SPDX-License-Identifier: Apache-2.0 */
/* needs: gateway/config gateway/look proto/otlp/view proto/io dep_jsonc */
/* Batches that wait for the store while it is busy: all their stacks are there afterwards. */
#include "gateway/run/looking.h"

#include <stdlib.h>
#include <string.h>

#include "gateway/look/answer.h"
#include "gateway/look/store.h"
#include "gateway/look/tap.h"
#include "proto/base/clock.h"
#include "proto/io/loop.h"
#include "tests/lib/unit.h"

static void push(struct looking *l, struct look_tap *tap, const char *name, uint64_t now)
{
    cleanup(profiles_release) struct profiles view;
    struct error e = {""};
    size_t n;
    autofree unsigned char *body = unit_data(name, &n);
    ck_assert_int_eq(profiles_init(&view, NULL), 0);
    ck_assert_int_eq(profiles_decode(&view, bytes_of(body, n), &profiles_limits_default, &e), 0);
    look_tap_push(tap, &view, now);
    looking_take(l, look_tap_take(tap));
}

UNIT(stacks_told_while_the_store_is_busy_are_known_to_the_next_batch)
{
    char folder[UNIT_PATH_MAX];
    struct error e = {""};
    unit_new_folder(folder);
    struct io_loop *loop = unit_made(io_loop_new());
    struct config *c = unit_made(config_new(NULL));
    struct budget budget = BUDGET_INIT(SIZE_MAX, NULL);
    struct looking *l;
    c->look_memory = 64u << 20;
    c->look_expose = true;
    c->look_storage = folder;
    ck_assert_msg(looking_new(&l, c, loop, &budget, &e) == 0, "%s", e.text);
    struct look_tap *tap = unit_made(looking_tap(l));
    /* An epoch begins: what the tap told before is void. */
    push(l, tap, "connector/ebpf-go-0003.pb", clock_realtime());
    looking_end(l);
    /* The first is the thread's at once; the others wait until the loop runs. */
    push(l, tap, "connector/ebpf-go-0003.pb", clock_realtime());
    push(l, tap, "connector/ebpf-mixed-0003.pb", clock_realtime());
    push(l, tap, "connector/ebpf-mixed-0003.pb", clock_realtime());
    looking_end(l);
    look_tap_free(tap);
    looking_free(l);

    const struct look_store_options options = {64u << 20, UINT64_MAX, 5000};
    struct look_store *store = unit_made(look_store_new(&options, NULL));
    ck_assert_msg(look_store_keep_in(store, folder, SIZE_MAX, &e) == 0, "%s", e.text);
    struct look_answer answer = {0};
    ck_assert_int_eq(look_answer(store, LOOK_FOLDED, BYTES_LIT("from=0"), clock_realtime(), 0, &answer), 0);
    ck_assert_uint_eq(answer.status, 200);
    buffer_add(&answer.body, "", 1);
    ck_assert_ptr_nonnull(strstr((char *)answer.body.p, ";"));
    ck_assert_ptr_null(strstr((char *)answer.body.p, "[not kept]"));
    buffer_release(&answer.body);
    look_store_free(store);
    config_free(c);
    io_loop_free(loop);
}
