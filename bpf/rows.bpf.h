/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The rule for an address, out of the tables that user space fills: pages, rows, rules (unwind.h). A page
 * that is not there is user space's to load: the walk ends, and goes on there (record.bpf.h).
 *
 * Between two ticks everything else that runs has emptied the CPU's caches: a search misses them five times a
 * frame (page, shard, two or three lines of rows, rule), 0.5 µs; what it found is therefore remembered, as
 * most return addresses come again, in a table that is small enough to stay near, where it is one.
 */
#ifndef BPF_ROWS_BPF_H
#define BPF_ROWS_BPF_H

#include "bpf/mappings.bpf.h"

struct unwind_shard {
    struct unwind_row row[UNWIND_SHARD_ROWS];
};

/* The first shards are there from the start, in one map whose address is a constant: to search them costs
 * half of what the others cost, where the outer map, the inner one and the code of their look-up are far
 * away. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, UNWIND_NEAR_SHARDS);
    __uint(map_flags, BPF_F_MMAPABLE);
    __type(key, __u32);
    __type(value, struct unwind_shard);
} unwind_near SEC(".maps");

/* The others, made by user space as they fill. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
    __uint(max_entries, UNWIND_SHARDS);
    __type(key, __u32);
    __array(
        values, struct {
            __uint(type, BPF_MAP_TYPE_ARRAY);
            __uint(max_entries, 1);
            __uint(map_flags, BPF_F_MMAPABLE);
            __uint(key_size, 4);
            __uint(value_size, sizeof(struct unwind_shard));
        });
} unwind_shards SEC(".maps");

/* Written by user space through the mapped .bss; what else is written here is when a page was used. */
struct unwind_bucket unwind_pages[UNWIND_BUCKETS];
struct unwind_rule unwind_rules[UNWIND_RULES];

/* One rule found: `of` names the tables (unwind_file.serial) and the byte of the file it is for, XORed with
 * the rule, so that an entry half written when an interrupt's walk comes in between is nobody's. */
struct found_rule {
    __u64 of, rule;
};

/* In parts, of which a process uses one: two pages of memory a stack, not eight. */
#define FOUND_BITS      11u
#define FOUND_PART_BITS 9u

struct found_rules {
    struct found_rule at[1u << FOUND_BITS];
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct found_rules);
} rules_found SEC(".maps");

#define RULE_MISSING ((__u64)UNWIND_CFA_MISSING)

/* By the tables: the rule for an offset in the file of a serial. `used` is the time, as in a page's entry. */
__attribute__((noinline)) __u64 search_rule(__u32 file, __u32 offset, __u32 used)
{
    __u32 name = UNWIND_PAGE_NAME(file, offset >> UNWIND_PAGE_BITS), zero = 0, way = 0;
    __u64 number = UNWIND_PAGE_BUCKET(name);
    barrier_var(number); /* before 5.11 the verifier knows nothing of what comes of an exclusive or */
    struct unwind_bucket *bucket = &unwind_pages[number & (UNWIND_BUCKETS - 1)];
    __u64 page = 0;
#pragma clang loop unroll(disable)
    for (__u32 i = 0; i < UNWIND_PAGE_WAYS; i++) {
        page = *(volatile __u64 *)&bucket->page[i];
        way = i;
        if ((__u32)page == name)
            break;
    }
    if (UNLIKELY((__u32)page != name))
        return RULE_MISSING;
    if (UNWIND_PAGE_USED(page) != used)
        ((volatile __u8 *)&bucket->page[way & (UNWIND_PAGE_WAYS - 1)])[7] = used;
    if (!UNWIND_PAGE_N(page))
        return 0;
    __u32 block = UNWIND_PAGE_BLOCK(page), shard = block / UNWIND_SHARD_BLOCKS;
    struct unwind_shard *rows = bpf_map_lookup_elem(&unwind_near, &shard);
    if (UNLIKELY(!rows)) {
        void *inner = bpf_map_lookup_elem(&unwind_shards, &shard);
        rows = inner ? bpf_map_lookup_elem(inner, &zero) : 0;
        if (!rows)
            return RULE_MISSING;
    }
    __u32 rule = unwind_search(rows->row, block % UNWIND_SHARD_BLOCKS * UNWIND_BLOCK_ROWS,
                               UNWIND_PAGE_N(page), offset & (UNWIND_PAGE_SIZE - 1));
    return *(const __u64 *)&unwind_rules[rule & (UNWIND_RULES - 1)];
}

/* Sets *ret to the rule for an address of a mapping; `part` of what was found is the process's. */
static __always_inline void find_rule(const struct unwind_mapping *here, struct found_rules *found,
                                      __u32 part, __u64 address, __u64 now, struct unwind_rule *ret)
{
    volatile __u64 *bits = (volatile __u64 *)ret;
    _Static_assert(sizeof *ret == 8, "fits a word");
    _Static_assert((__u64)UNWIND_FILE_PAGES << UNWIND_PAGE_BITS == 1ull << 32,
                   "so does an offset, and a serial");
    __u64 offset = address + here->bias;
    *bits = 0;
    if (UNLIKELY(offset >> UNWIND_PAGE_BITS >= here->n_pages))
        return;
    __u64 of = (__u64)here->serial << 32 | (__u32)offset;
    __u64 slot = of * 0x9e3779b97f4a7c15ull >> (64 - FOUND_PART_BITS) | (__u64)part << FOUND_PART_BITS;
    barrier_var(slot);
    struct found_rule *entry = &found->at[slot & ((1u << FOUND_BITS) - 1)];
    __u64 rule = *(volatile __u64 *)&entry->rule;
    if (UNLIKELY((*(volatile __u64 *)&entry->of ^ rule) != of)) {
        rule = search_rule(here->serial, offset, now >> UNWIND_USED_SHIFT & 255);
        if (LIKELY(rule != RULE_MISSING)) {
            *(volatile __u64 *)&entry->rule = rule;
            *(volatile __u64 *)&entry->of = of ^ rule;
        }
    }
    *bits = rule;
}

#endif
