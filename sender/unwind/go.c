/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/unwind/go.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/base/macros.h"

/* A page of code needs some tens of functions: of each a word or two. */
#define WINDOW_BYTES 4096u

/* struct _func (runtime/runtime2.go): where its fields are. 1.20 put startLine before the flags. */
enum { FUNC_NAME = 4, FUNC_PCSP = 16, FUNC_FLAG_118 = 37, FUNC_FLAG_120 = 41, FUNC_SIZE = 44 };

/* abi.FuncFlag */
enum { FLAG_TOP_FRAME = 1, FLAG_SP_WRITE = 2 };

/* n bytes of the table, n <= 64, or NULL. */
static const uint8_t *at(const struct go_frames *g, struct go_window *w, uint64_t offset, size_t n)
{
    const struct pclntab *t = &g->table;
    if (offset > t->size || n > t->size - offset)
        return NULL;
    if (offset < w->at || offset + n > w->at + w->n) {
        size_t want = (size_t)min_of((uint64_t)WINDOW_BYTES, t->size - offset);
        w->at = offset;
        w->n = source_read_some(&t->source, t->base + offset, w->bytes, want);
        if (w->n < n)
            return NULL;
    }
    return w->bytes + (offset - w->at);
}

static uint32_t word(const uint8_t *p)
{
    uint32_t value;
    memcpy(&value, p, sizeof value);
    return value;
}

int go_open(struct go_frames *ret, const struct source *s, struct elf *elf)
{
    struct go_frames g = {0};
    pclntab_find(elf, s);
    if (elf->go_lines.size == 0 || pclntab_open(&g.table, s, elf) < 0 || g.table.version < 118)
        return GO_NONE;
    g.n = (uint32_t)g.table.n_functions;
    g.functions.bytes = malloc(WINDOW_BYTES);
    g.details.bytes = malloc(WINDOW_BYTES);
    g.programs.bytes = malloc(WINDOW_BYTES);
    if (!g.functions.bytes || !g.details.bytes || !g.programs.bytes) {
        go_close(&g);
        return -ENOMEM;
    }
    *ret = g;
    return 0;
}

void go_close(struct go_frames *g)
{
    free(g->functions.bytes);
    free(g->details.bytes);
    free(g->programs.bytes);
    *g = (struct go_frames){0};
}

bool go_function(struct go_frames *g, uint32_t i, uint64_t *ret_start, uint64_t *ret_size)
{
    /* (entry, details), and behind the last one where it ends */
    const uint8_t *p = at(g, &g->functions, g->table.functions + 8 * (uint64_t)i, 12);
    if (!p || word(p + 8) <= word(p))
        return false;
    *ret_start = g->table.text + word(p);
    *ret_size = word(p + 8) - word(p);
    return true;
}

/* A number of a pc-value program; false at its damaged end. */
static bool varint(struct go_frames *g, uint64_t *from, uint32_t *ret)
{
    uint32_t value = 0;
    for (unsigned shift = 0; shift < 35; shift += 7) {
        const uint8_t *p = at(g, &g->programs, (*from)++, 1);
        if (!p)
            return false;
        value |= (uint32_t)(*p & 0x7f) << (shift & 31);
        if (!(*p & 0x80)) {
            *ret = value;
            return true;
        }
    }
    return false;
}

/* What holds where the stack pointer is `below` bytes under the frame. A function with a frame has saved rbp
 * first of all in it (cmd/internal/obj/x86). */
static struct unwind_rule rule_below(uint32_t below)
{
    if (below > INT32_MAX / 2 || below % 8)
        return (struct unwind_rule){.cfa = UNWIND_CFA_UNKNOWN};
    struct unwind_rule rule = {.cfa = UNWIND_CFA_RSP, .cfa_offset = (int32_t)below + 8};
    if (below >= 8) {
        rule.rbp = UNWIND_RBP_AT_CFA;
        rule.rbp_offset = -16;
    }
    return rule;
}

static int run(struct go_frames *g, uint64_t from, uint64_t start, uint64_t size, cfi_row_fn row, void *user)
{
    uint32_t value = UINT32_MAX; /* -1; wraps as Go's int32 does */
    uint64_t pc = start;
    for (uint32_t step = 0; step < PCLNTAB_STEPS_MAX && pc - start < size; step++) {
        uint32_t delta, pcs;
        if (!varint(g, &from, &delta))
            return -EBADMSG;
        if (delta == 0 && step > 0)
            return 0;
        if (!varint(g, &from, &pcs))
            return -EBADMSG;
        value += delta & 1 ? ~(delta >> 1) : delta >> 1;
        struct unwind_rule rule = rule_below(value);
        row(user, pc, &rule);
        pc += (uint64_t)pcs * g->table.quantum;
    }
    return 0;
}

/* Go ends its own tracebacks at what the kernel calls for a signal, but there is a caller: who was
 * interrupted. */
static bool is_handler(struct go_frames *g, uint32_t name)
{
    static const char handler[] = "runtime.sigtramp";
    const uint8_t *p = at(g, &g->programs, g->table.names + name, sizeof handler);
    return p && memcmp(p, handler, sizeof handler) == 0;
}

int go_run(struct go_frames *g, uint32_t i, cfi_row_fn row, void *user)
{
    static const struct unwind_rule root = {.cfa = UNWIND_CFA_ROOT}, pointer = {.cfa = UNWIND_CFA_POINTER};
    uint64_t start, size;
    if (!go_function(g, i, &start, &size))
        return -EBADMSG;
    const uint8_t *p = at(g, &g->functions, g->table.functions + 8 * (uint64_t)i, 8);
    p = p ? at(g, &g->details, g->table.functions + word(p + 4), FUNC_SIZE) : NULL;
    if (!p)
        return -EBADMSG;
    uint8_t flags = p[g->table.version >= 120 ? FUNC_FLAG_120 : FUNC_FLAG_118];
    uint32_t program = word(p + FUNC_PCSP), name = word(p + FUNC_NAME);
    if ((flags & FLAG_TOP_FRAME) && !is_handler(g, name)) {
        row(user, start, &root);
        return 0;
    }
    /* One that writes the stack pointer goes to another stack (systemstack): rbp leads back from there. */
    if ((flags & FLAG_SP_WRITE) || program == 0) {
        row(user, start, &pointer);
        return 0;
    }
    return run(g, g->table.pcs + program, start, size, row, user);
}
