/* SPDX-License-Identifier: Apache-2.0 */
/* needs: proto/arrow */
#include <errno.h>
#include <stdlib.h>

#include "proto/arrow/column.h"
#include "tests/lib/sweep.h"
#include "tests/lib/unit.h"
#include "tests/unit/proto/arrow/seed.h"

#define MAX (1u << 20)

static struct arrow_stream stream; /* too large for the stack */

static int begin(struct bytes ipc, uint64_t max, struct budget *budget, struct error *e)
{
    e->text[0] = 0;
    arrow_stream_init(&stream, ipc, max, budget);
    return arrow_next(&stream, e);
}

static struct bytes text_of(const char *column, uint64_t row)
{
    uint64_t at;
    const uint32_t label = arrow_find(&stream, arrow_find(&stream, 0, "labels"), column);
    struct arrow_cursor cursor = arrow_cursor(&stream, label ? label : arrow_find(&stream, 0, column));
    ck_assert(arrow_seek(&stream, &cursor, row, &at));
    return arrow_bytes(&stream, cursor.column, at);
}

/* The name of the function of a frame of a row, by lists, dictionaries, structs and views. */
static struct bytes function_of(uint64_t row, uint64_t frame)
{
    const uint32_t stack = arrow_find(&stream, 0, "stacktrace"), element = arrow_child(&stream, stack, 0);
    const uint32_t location = stream.columns[element].dictionary,
                   lines = arrow_find(&stream, location, "lines");
    const uint32_t function = arrow_find(&stream, arrow_child(&stream, lines, 0), "function");
    uint64_t from, n;
    int64_t at, number;
    ck_assert(arrow_list(&stream, stack, row, &from, &n) && frame < n);
    ck_assert(arrow_number(&stream.columns[element], from + frame, &at));
    if (!arrow_list(&stream, lines, (uint64_t)at, &from, &n))
        return (struct bytes){0};
    ck_assert_uint_eq(n, 1);
    ck_assert(arrow_number(&stream.columns[function], from, &number));
    return arrow_bytes(&stream, arrow_find(&stream, stream.columns[function].dictionary, "system_name"),
                       (uint64_t)number);
}

UNIT(what_arrows_own_library_wrote_is_read)
{
    static const char *const names[] = {"lz4", "zstd", "plain"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct error e;
        int64_t value;
        ck_assert_msg(begin(seed(names[i]), MAX, NULL, &e) == 0, "%s: %s", names[i], e.text);
        ck_assert_uint_eq(stream.columns[0].n, 14);
        const struct arrow_column *values = &stream.columns[arrow_find(&stream, 0, "value")];
        ck_assert(arrow_number(values, 12, &value) && value == 12000);
        ck_assert(!arrow_number(values, 14, &value));
        ck_assert(arrow_number(&stream.columns[arrow_find(&stream, 0, "timestamp")], 13, &value));
        ck_assert_int_eq(value, 1700000000000013000);
        ck_assert(bytes_is(text_of("comm", 5), "web") && bytes_is(text_of("comm", 6), "db"));
        ck_assert(text_of("region", 6).p == NULL && bytes_is(text_of("region", 7), "eu"));
        ck_assert(bytes_is(text_of("producer", 6), "memory") &&
                  bytes_is(text_of("sample_type", 12), "wallclock"));
        ck_assert(bytes_is(function_of(0, 0), "do_syscall_64") && function_of(0, 1).p == NULL);
        ck_assert(bytes_is(function_of(0, 2), "handle_a_request_with_a_long_name"));
        ck_assert(bytes_is(function_of(5, 3), "main"));
        ck_assert_uint_eq(arrow_bytes(&stream, arrow_find(&stream, 0, "stacktrace_id"), 3).n, 16);
        ck_assert_int_eq(arrow_next(&stream, &e), ARROW_END);
        arrow_stream_release(&stream);
    }
}

UNIT(what_is_cut_short_is_said_to_be)
{
    const struct bytes whole = seed("plain");
    ck_assert_uint_gt(whole.n, 1000);
    for (size_t n = 1; n < whole.n; n += n < 64 ? 1 : 7) {
        struct error e;
        autofree uint8_t *copy = unit_made(malloc(n)); /* so that ASan sees what is read behind it */
        memcpy(copy, whole.p, n);
        int r = begin(bytes_of(copy, n), MAX, NULL, &e);
        /* A stream may end between two messages. */
        ck_assert_msg(r == ARROW_MALFORMED || r == ARROW_END || (r == 0 && n + 8 >= whole.n), "%zu: %d", n,
                      r);
        ck_assert((r == ARROW_MALFORMED) == (e.text[0] != 0));
        arrow_stream_release(&stream);
    }
}

/* Bytes here and there are others: wherever offsets, counts and lengths then lead. tests/fuzz tries all. */
UNIT(wrong_bytes_lead_nowhere)
{
    struct budget budget = BUDGET_INIT(MAX, NULL);
    const struct bytes whole = seed("plain");
    for (size_t i = 0; i < whole.n; i += 7) {
        const uint8_t was = seed_bytes[i];
        for (unsigned k = 0; k < 3; k++) {
            struct error e;
            seed_bytes[i] = (uint8_t)(k == 0 ? 0xff : k == 1 ? was + 1 : was ^ 0x80);
            int r = begin(whole, MAX, &budget, &e);
            ck_assert(r == 0 || (r == ARROW_MALFORMED) == (e.text[0] != 0));
            for (uint32_t c = 1; r == 0 && c < stream.n_columns; c++) {
                uint64_t from, n;
                (void)arrow_bytes(&stream, c, 3);
                if (stream.columns[c].kind == ARROW_LIST_VIEW && arrow_list(&stream, c, 3, &from, &n))
                    ck_assert_uint_le(from + n, stream.columns[arrow_child(&stream, c, 0)].n);
            }
            arrow_stream_release(&stream);
            ck_assert_uint_eq(budget.used, 0);
        }
        seed_bytes[i] = was;
    }
}

UNIT(what_comes_out_is_bounded)
{
    struct error e;
    ck_assert_int_eq(begin(seed("lz4"), 100, NULL, &e), ARROW_TOO_LARGE);
    arrow_stream_release(&stream);
    struct budget budget = BUDGET_INIT(1u << 20, NULL); /* lz4's context alone has more */
    ck_assert_int_eq(begin(seed("lz4"), MAX, &budget, &e), -ENOMEM);
    arrow_stream_release(&stream);
    ck_assert_uint_eq(budget.used, 0);
}

OOM_SWEEP_HOW(no_memory_for_a_stream, SWEEP_ONCE)
{
    static const char *const names[] = {"lz4", "zstd"};
    struct budget budget = BUDGET_INIT(32u << 20, NULL);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct error e;
        sweep_pause();
        const struct bytes ipc = seed(names[i]);
        sweep_resume();
        const int r = begin(ipc, MAX, &budget, &e);
        ck_assert(r == 0 || r == -ENOMEM);
        arrow_stream_release(&stream);
        ck_assert_uint_eq(budget.used, 0);
    }
}
