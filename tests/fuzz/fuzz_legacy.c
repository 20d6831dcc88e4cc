/* SPDX-License-Identifier: Apache-2.0 */
/* needs: proto/otlp/layouts proto/otlp/view */
/*
 * The translation of older layouts: the first byte says of which. Whatever comes out is a 1.10 request that
 * decodes, within the memory allowed; and the account is even afterwards.
 */
#include <stdlib.h>

#include "proto/otlp/layouts/legacy.h"
#include "proto/otlp/view/profiles.h"
#include "tests/fuzz/fuzz.h"

#define ACCOUNT ((size_t)64 << 20)

static volatile uint64_t sink; /* so that reading the columns is not optimised away */

/* Every reference of every sample is followed: the sanitizer looks on. */
static uint64_t use(const struct profiles *v)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < v->sample.n; i++) {
        uint32_t stack = v->sample.stack[i];
        for (uint32_t k = v->sample.attrs_at[i]; k < v->sample.attrs_at[i + 1]; k++)
            sum += profiles_string(v, v->attribute.key[v->attr_index.attribute[k]]).n;
        if (stack == PROFILES_REJECTED)
            continue;
        for (uint32_t k = v->stack.locations_at[stack]; k < v->stack.locations_at[stack + 1]; k++) {
            uint32_t location = v->stack_location.location[k];
            sum += v->mapping.memory_start[v->location.mapping[location]];
            for (uint32_t l = v->location.lines_at[location]; l < v->location.lines_at[location + 1]; l++)
                sum += profiles_string(v, v->function.name[v->line.function[l]]).n;
        }
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    const struct profiles_limits limits = {.column_bytes = 16u << 20, .depth = 64};
    struct budget budget = BUDGET_INIT(ACCOUNT, NULL);
    struct buffer out = BUFFER_INIT(0);
    struct profiles view;
    struct error e = {""};
    enum profiles_layout from = (enum profiles_layout)(PROFILES_LAYOUT_1_5 + (len > 0 ? data[0] % 4 : 0));
    struct bytes body = len > 0 ? bytes_of(data + 1, len - 1) : bytes_of(data, 0);
    autofree uint8_t *padded = calloc(1, body.n + PROFILES_PADDING);
    require(padded && profiles_init(&view, &budget) == 0);
    if (body.n > 0)
        memcpy(padded, body.p, body.n);

    int r = legacy_transcode(from, body, &limits, &budget, &out, &e);
    require(r == 0 || r == PROFILES_MALFORMED || r == PROFILES_OVER_BUDGET);
    require((r == PROFILES_MALFORMED) == (e.text[0] != '\0'));
    require(atomic_load(&budget.used) == out.max && out.cap <= out.max && (r == 0 || out.n == 0));
    legacy_release(&out, &budget);

    int again = profiles_decode_as(&view, bytes_of(padded, body.n), from, &limits, &e);
    require(again >= 0 && (r == 0 || again == r));
    require(again != 0 || view.layout == from);
    if (again == 0)
        sink = use(&view);
    require(atomic_load(&budget.used) == profiles_memory_used(&view));
    profiles_release(&view);
    require(atomic_load(&budget.used) == 0);
    return 0;
}
