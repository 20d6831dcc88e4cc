/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/unwind/rest.h"

/* The copy of a stack, by pages. Other stacks, where a coroutine came from, are not in it: there the walk
 * ends. */
struct memory {
    const struct unwind_rest *rest;
    uint64_t start;
    uint64_t far; /* what is not in it */
};

/* As copy_page of bpf/record.bpf.h puts them: of a stack that is longer the last pages are its last. */
static int load_here(struct memory *m, uint64_t address, uint64_t *value)
{
    const uint64_t size = sizeof m->rest->stack[0], first = UNWIND_REST_PAGES - UNWIND_REST_LAST;
    if (address % 8 || address < m->start || address >= m->rest->end)
        return -1;
    uint64_t page = (address - m->start) / size, from_end = (m->rest->end - 1 - address) / size;
    if (page >= first)
        page = from_end < UNWIND_REST_LAST ? UNWIND_REST_PAGES - 1 - from_end : UNWIND_REST_PAGES;
    if (page >= UNWIND_REST_PAGES || !(m->rest->has >> page & 1))
        return -1;
    *value = m->rest->stack[page][address % size / 8];
    return 0;
}

static int load(struct memory *m, uint64_t address, uint64_t *value)
{
    int r = load_here(m, address, value);
    if (r < 0)
        m->far = address;
    return r;
}

static bool in_stack(struct memory *m, const struct unwind_registers *r, uint64_t address)
{
    uint64_t word;
    return address >= r->sp && load_here(m, address, &word) == 0;
}

#define UNWIND_WALK                    struct memory
#define UNWIND_LOAD(m, address, value) load(m, address, value)
#define UNWIND_IN_STACK(m, r, address) in_stack(m, r, address)
#include "bpf/unwind_step.h"

static int load_any(void *of, uint64_t address, uint64_t *value)
{
    return load(of, address, value);
}

enum unwind_end rest_walk(const struct unwind_rest *rest, const struct rest_walk *with, uint64_t *far)
{
    struct unwind_registers at = rest->at;
    struct memory memory = {rest, at.sp & ~(uint64_t)(sizeof rest->stack[0] - 1), 0};
    *far = 0;
    int end = UNWIND_END_NONE;
    while (end == UNWIND_END_NONE) {
        uint64_t address = at.ip - (at.is_return != 0);
        struct unwind_rule rule;
        int r = with->rule(with->user, address, &rule);
        if (r < 0)
            return UNWIND_END_NOT_CODE;
        bool has_rule = r > 0 || (rule.cfa != UNWIND_CFA_NONE && rule.cfa != UNWIND_CFA_UNKNOWN);
        if (with->step && with->step(with->user, &at, has_rule, load_any, &memory) == 0) {
            at.had_all = 0;
            continue;
        }
        if (r > 0)
            rule = (struct unwind_rule){0};
        if (rule.cfa == UNWIND_CFA_SIGNAL || (rule.cfa == UNWIND_CFA_PADDING && at.is_return))
            address = at.ip; /* as walk.bpf.h says */
        if (!with->frame(with->user, address, rule.cfa))
            return UNWIND_END_DEPTH;
        end = r > 0 ? UNWIND_END_MISSING : unwind_step(&memory, &at, rule);
        if (end == UNWIND_END_ROOT && rule.cfa != UNWIND_CFA_ROOT && at.is_return && address != at.ip &&
            with->begin)
            with->begin(with->user, at.ip);
    }
    *far = memory.far > memory.start ? memory.far : 0;
    /* Above the copy the stack goes on, for who reads it when the rows are there. */
    return end == UNWIND_END_UNREADABLE ? UNWIND_END_MISSING : (enum unwind_end)end;
}
