/* SPDX-License-Identifier: Apache-2.0 */
/* needs: proto/otlp/write */
/*
 * The whole way of an untrusted request: decode; then every index of every column is used; then a subset of
 * it, which must decode again with as many samples as were kept and none rejected.
 */
#include <stdlib.h>

#include "proto/base/rng.h"
#include "proto/otlp/write/subset.h"
#include "tests/fuzz/fuzz.h"

static volatile uint64_t sink; /* so that reading the columns is not optimised away */

static uint64_t use_attrs(const struct profiles *v, uint32_t from, uint32_t to)
{
    uint64_t sum = 0;
    require(from <= to && to <= v->attr_index.n);
    for (; from < to; from++) {
        uint32_t a = v->attr_index.attribute[from];
        sum += profiles_string(v, v->attribute.key[a]).n + profiles_string(v, v->attribute.unit[a]).n;
        if (v->attribute.value[a].kind == ATTR_STRING && v->attribute.value[a].text.n > 0)
            sum += v->attribute.value[a].text.p[0];
    }
    return sum;
}

static uint64_t use_dictionary(const struct profiles *v)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < v->stack.n; i++)
        for (uint32_t k = v->stack.locations_at[i]; k < v->stack.locations_at[i + 1]; k++)
            sum += v->location.address[v->stack_location.location[k]];
    for (uint32_t i = 0; i < v->location.n; i++) {
        sum += v->mapping.memory_start[v->location.mapping[i]];
        sum += use_attrs(v, v->location.attrs_at[i], v->location.attrs_at[i + 1]);
        for (uint32_t k = v->location.lines_at[i]; k < v->location.lines_at[i + 1]; k++)
            sum += v->function.name[v->line.function[k]];
    }
    for (uint32_t i = 0; i < v->function.n; i++)
        sum += profiles_string(v, v->function.name[i]).n + profiles_string(v, v->function.system_name[i]).n +
               profiles_string(v, v->function.filename[i]).n;
    for (uint32_t i = 0; i < v->mapping.n; i++)
        sum += profiles_string(v, v->mapping.filename[i]).n +
               use_attrs(v, v->mapping.attrs_at[i], v->mapping.attrs_at[i + 1]);
    for (uint32_t i = 0; i < v->string.n; i++) {
        struct bytes s = profiles_string(v, i);
        sum += s.n > 0 ? s.p[s.n - 1] : 0;
    }
    return sum;
}

static uint64_t use_tree(const struct profiles *v)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < v->profile.n; i++) {
        sum += v->scope.resource[v->profile.scope[i]] + profiles_string(v, v->profile.type[i]).n;
        sum += use_attrs(v, v->profile.attrs_at[i], v->profile.attrs_at[i + 1]);
        require(v->profile.samples_at[i] <= v->profile.samples_at[i + 1]);
    }
    require(v->profile.samples_at[v->profile.n] == v->sample.n);
    for (uint32_t i = 0; i < v->sample.n; i++) {
        if (v->sample.stack[i] != PROFILES_REJECTED)
            sum += v->stack.locations_at[v->sample.stack[i]];
        sum += v->link.trace_at[v->sample.link[i]];
        sum += use_attrs(v, v->sample.attrs_at[i], v->sample.attrs_at[i + 1]);
    }
    for (uint32_t i = 0; i < v->resource.attrs_at[v->resource.n]; i++)
        sum += v->key_value.attr[i].key.n;
    require(v->scope.attrs_at[0] == v->resource.attrs_at[v->resource.n]);
    require(v->scope.attrs_at[v->scope.n] == v->key_value.n);
    return sum;
}

static void try_subset(const struct profiles *v, struct profiles *again, struct rng *rng,
                       const struct profiles_limits *limits)
{
    autofree uint64_t *keep = calloc(SUBSET_WORDS(v->sample.n) + 1, sizeof *keep);
    cleanup(arena_release) struct arena scratch = ARENA_INIT(NULL);
    cleanup(buffer_release) struct buffer out = BUFFER_INIT(0);
    const struct subset_mark mark = {BYTES_LIT("kept"), 0.5, rng_next(rng) & 1};
    uint32_t n_kept = 0;
    require(keep != NULL);
    for (uint32_t i = 0; i < v->sample.n; i++)
        if (rng_next(rng) & 1) {
            subset_add(keep, i);
            n_kept += v->sample.stack[i] != PROFILES_REJECTED;
        }
    require(profiles_subset(v, keep, rng_next(rng) & 1 ? &mark : NULL, &scratch, &out) == 0);
    autofree uint8_t *body = calloc(1, out.n + PROFILES_PADDING);
    require(body != NULL);
    memcpy(body, out.p, out.n);
    /* few samples may look like an older layout, so it is said which */
    require(profiles_decode_as(again, bytes_of(body, out.n), PROFILES_LAYOUT_1_10, limits, NULL) == 0);
    require(again->sample.n == n_kept && again->rejected.samples == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    const struct profiles_limits limits = {.column_bytes = 64u << 20, .depth = 64};
    cleanup(profiles_release) struct profiles v, again;
    struct error e = {""};
    struct rng rng;
    rng_seed(&rng, len);
    autofree uint8_t *body = calloc(1, len + PROFILES_PADDING);
    require(body && profiles_init(&v, NULL) == 0 && profiles_init(&again, NULL) == 0);
    memcpy(body, data, len);
    int r = profiles_decode(&v, bytes_of(body, len), &limits, &e);
    require(r >= 0 && (r == 0) == (e.text[0] == '\0'));
    if (r == 0) {
        sink = use_dictionary(&v) + use_tree(&v);
        try_subset(&v, &again, &rng, &limits);
    }
    return 0;
}
