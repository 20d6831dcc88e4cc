/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/unwind/cfi.h"

#include <errno.h>

#include "sender/unwind/expression.h"
#include "sender/symbolize/elf/reader.h"

/* DWARF 5, section 7.24; 0x2d and above: GNU. */
enum {
    CFA_ADVANCE_LOC = 0x40,
    CFA_OFFSET = 0x80,
    CFA_RESTORE = 0xc0,
    CFA_NOP = 0x00,
    CFA_SET_LOC = 0x01,
    CFA_ADVANCE_LOC1 = 0x02,
    CFA_ADVANCE_LOC2 = 0x03,
    CFA_ADVANCE_LOC4 = 0x04,
    CFA_OFFSET_EXTENDED = 0x05,
    CFA_RESTORE_EXTENDED = 0x06,
    CFA_UNDEFINED = 0x07,
    CFA_SAME_VALUE = 0x08,
    CFA_REGISTER = 0x09,
    CFA_REMEMBER_STATE = 0x0a,
    CFA_RESTORE_STATE = 0x0b,
    CFA_DEF_CFA = 0x0c,
    CFA_DEF_CFA_REGISTER = 0x0d,
    CFA_DEF_CFA_OFFSET = 0x0e,
    CFA_DEF_CFA_EXPRESSION = 0x0f,
    CFA_EXPRESSION = 0x10,
    CFA_OFFSET_EXTENDED_SF = 0x11,
    CFA_DEF_CFA_SF = 0x12,
    CFA_DEF_CFA_OFFSET_SF = 0x13,
    CFA_VAL_OFFSET = 0x14,
    CFA_VAL_OFFSET_SF = 0x15,
    CFA_VAL_EXPRESSION = 0x16,
    CFA_GNU_ARGS_SIZE = 0x2e,
    CFA_GNU_NEGATIVE_OFFSET_EXTENDED = 0x2f,
};

/* Compilers nest two or three. */
#define REMEMBERED_MAX 32

enum where {
    WHERE_SAME,
    WHERE_AT_CFA,
    WHERE_AT_RBP,
    WHERE_AT_RSP,
    WHERE_IN_REGISTER,
    WHERE_UNDEFINED,
    WHERE_UNKNOWN
};

/* Where a register of the caller is. */
struct saved {
    enum where where;
    int64_t value; /* offset, or register number */
};

struct state {
    struct expression cfa;
    struct saved rbp, ra;
};

struct machine {
    const struct cfi_common *common;
    struct state now, initial, remembered[REMEMBERED_MAX];
    uint32_t n_remembered;
    uint64_t location, end; /* of the function */
    cfi_row_fn row;         /* NULL while the CIE's own program runs */
    void *user;
    uint64_t wanted; /* the register that cfi_saves asks for … */
    int64_t found;   /* … and where it is put first */
    bool has_found;
};

static bool fits(int64_t value, int bits)
{
    return value >= -(INT64_C(1) << (bits - 1)) && value < INT64_C(1) << (bits - 1);
}

static struct unwind_rule unknown(void)
{
    return (struct unwind_rule){.cfa = UNWIND_CFA_UNKNOWN};
}

/* Adds the CFA's part to a rule; false if no rule says it. */
static bool cfa_rule(const struct expression *e, struct unwind_rule *rule)
{
    switch (e->kind) {
    case EXPRESSION_REGISTER:
        if (e->reg > 15 || !fits(e->offset, 32))
            return false;
        rule->cfa = (uint8_t)(e->reg == DWARF_RSP   ? UNWIND_CFA_RSP
                              : e->reg == DWARF_RBP ? UNWIND_CFA_RBP
                                                    : UNWIND_CFA_REGISTER + e->reg);
        rule->cfa_offset = (int32_t)e->offset;
        return true;
    case EXPRESSION_MEMORY_TWICE:
    case EXPRESSION_MEMORY:
        if ((e->reg != DWARF_RSP && (e->reg != DWARF_RBP || e->kind == EXPRESSION_MEMORY_TWICE)) ||
            !fits(e->offset, 24) || e->plus > 255)
            return false;
        rule->cfa = (uint8_t)(e->kind == EXPRESSION_MEMORY_TWICE ? UNWIND_CFA_AT_RSP_TWICE
                              : e->reg == DWARF_RSP              ? UNWIND_CFA_AT_RSP
                                                                 : UNWIND_CFA_AT_RBP);
        rule->cfa_offset = (int32_t)(e->offset * 256 + (int64_t)e->plus);
        return true;
    case EXPRESSION_PLT:
        rule->cfa = UNWIND_CFA_PLT;
        rule->cfa_offset = (int32_t)e->offset;
        return true;
    default: return false;
    }
}

static struct unwind_rule rule_of(const struct state *s, bool is_signal)
{
    struct unwind_rule rule = {0};
    static const uint8_t rbp[] = {
        [WHERE_SAME] = UNWIND_RBP_SAME,        [WHERE_AT_CFA] = UNWIND_RBP_AT_CFA,
        [WHERE_AT_RBP] = UNWIND_RBP_AT_RBP,    [WHERE_AT_RSP] = UNWIND_RBP_AT_RSP,
        [WHERE_IN_REGISTER] = UNWIND_RBP_LOST, [WHERE_UNDEFINED] = UNWIND_RBP_LOST,
        [WHERE_UNKNOWN] = UNWIND_RBP_LOST,
    };
    /* Code of OCaml 5 is marked like that and has frames as others have. */
    if (is_signal && !(s->ra.where == WHERE_AT_CFA && s->ra.value == -8))
        return (struct unwind_rule){.cfa = UNWIND_CFA_SIGNAL};
    if (s->ra.where == WHERE_UNDEFINED)
        return (struct unwind_rule){.cfa = UNWIND_CFA_ROOT};
    if (!cfa_rule(&s->cfa, &rule))
        return unknown();
    rule.rbp = rbp[s->rbp.where];
    if (rule.rbp == UNWIND_RBP_AT_CFA || rule.rbp == UNWIND_RBP_AT_RBP || rule.rbp == UNWIND_RBP_AT_RSP) {
        if (fits(s->rbp.value, 16))
            rule.rbp_offset = (int16_t)s->rbp.value;
        else
            rule.rbp = UNWIND_RBP_LOST;
    }
    if (s->ra.where == WHERE_IN_REGISTER && s->rbp.where == WHERE_SAME) {
        rule.rbp = UNWIND_RBP_RA_IN_REG;
        rule.rbp_offset = (int16_t)s->ra.value;
        return rule;
    }
    return s->ra.where == WHERE_AT_CFA && s->ra.value == -8 ? rule : unknown();
}

static void emit(struct machine *m)
{
    if (!m->row || m->location >= m->end)
        return;
    struct unwind_rule rule = rule_of(&m->now, m->common->is_signal);
    m->row(m->user, m->location, &rule);
}

/* Only these two are followed through callers. */
static struct saved *slot(struct machine *m, struct state *s, uint64_t reg)
{
    return reg == DWARF_RBP ? &s->rbp : reg == m->common->ra_register ? &s->ra : NULL;
}

static void set(struct machine *m, uint64_t reg, enum where where, int64_t value)
{
    struct saved *to = slot(m, &m->now, reg);
    if (to)
        *to = (struct saved){where, value};
    if (reg == m->wanted && where == WHERE_AT_CFA && !m->has_found) {
        m->found = value;
        m->has_found = true;
    }
}

static void restore(struct machine *m, uint64_t reg)
{
    struct saved *to = slot(m, &m->now, reg), *from = slot(m, &m->initial, reg);
    if (to)
        *to = *from;
}

static int advance(struct machine *m, uint64_t units)
{
    uint64_t by;
    emit(m);
    if (__builtin_mul_overflow(units, m->common->code_factor, &by) || by > m->end - m->location)
        return -EBADMSG;
    m->location += by;
    return 0;
}

static int64_t scaled(const struct machine *m, int64_t value)
{
    return (int64_t)((uint64_t)value * (uint64_t)m->common->data_factor);
}

static void saved_by_expression(struct machine *m, uint64_t reg, struct bytes program)
{
    struct expression e = expression_read(program);
    if (e.kind == EXPRESSION_REGISTER && e.reg == DWARF_RBP)
        set(m, reg, WHERE_AT_RBP, e.offset);
    else if (e.kind == EXPRESSION_REGISTER && e.reg == DWARF_RSP)
        set(m, reg, WHERE_AT_RSP, e.offset);
    else
        set(m, reg, WHERE_UNKNOWN, 0);
}

static void def_cfa(struct machine *m, uint64_t reg, int64_t offset)
{
    m->now.cfa = (struct expression){.kind = EXPRESSION_REGISTER, .reg = reg, .offset = offset};
}

/* Instructions that say where a register is. False: it is another one. */
static bool run_register(struct machine *m, struct reader *r, uint8_t op)
{
    uint64_t reg;
    switch (op) {
    case CFA_OFFSET_EXTENDED:
        reg = reader_uleb(r);
        set(m, reg, WHERE_AT_CFA, scaled(m, (int64_t)reader_uleb(r)));
        return true;
    case CFA_OFFSET_EXTENDED_SF:
        reg = reader_uleb(r);
        set(m, reg, WHERE_AT_CFA, scaled(m, reader_sleb(r)));
        return true;
    case CFA_GNU_NEGATIVE_OFFSET_EXTENDED:
        reg = reader_uleb(r);
        set(m, reg, WHERE_AT_CFA, scaled(m, -(int64_t)reader_uleb(r)));
        return true;
    case CFA_RESTORE_EXTENDED: restore(m, reader_uleb(r)); return true;
    case CFA_UNDEFINED: set(m, reader_uleb(r), WHERE_UNDEFINED, 0); return true;
    case CFA_SAME_VALUE: set(m, reader_uleb(r), WHERE_SAME, 0); return true;
    case CFA_REGISTER: {
        reg = reader_uleb(r);
        uint64_t in = reader_uleb(r);
        set(m, reg, in < 16 ? WHERE_IN_REGISTER : WHERE_UNKNOWN, (int64_t)(in & 15));
        return true;
    }
    case CFA_EXPRESSION:
        reg = reader_uleb(r);
        saved_by_expression(m, reg, reader_take(r, reader_uleb(r)));
        return true;
    case CFA_VAL_OFFSET:
    case CFA_VAL_OFFSET_SF:
        reg = reader_uleb(r);
        (void)reader_uleb(r);
        set(m, reg, WHERE_UNKNOWN, 0);
        return true;
    case CFA_VAL_EXPRESSION:
        reg = reader_uleb(r);
        (void)reader_take(r, reader_uleb(r));
        set(m, reg, WHERE_UNKNOWN, 0);
        return true;
    default: return false;
    }
}

static int run_other(struct machine *m, struct reader *r, uint8_t op)
{
    uint64_t reg;
    switch (op) {
    case CFA_NOP: return 0;
    case CFA_SET_LOC: return -EBADMSG; /* no compiler for x86-64 writes it */
    case CFA_ADVANCE_LOC1: return advance(m, reader_fixed(r, 1));
    case CFA_ADVANCE_LOC2: return advance(m, reader_fixed(r, 2));
    case CFA_ADVANCE_LOC4: return advance(m, reader_fixed(r, 4));
    case CFA_REMEMBER_STATE:
        if (m->n_remembered == REMEMBERED_MAX)
            return -EBADMSG;
        m->remembered[m->n_remembered++] = m->now;
        return 0;
    case CFA_RESTORE_STATE:
        if (m->n_remembered == 0)
            return -EBADMSG;
        m->now = m->remembered[--m->n_remembered];
        return 0;
    case CFA_DEF_CFA:
        reg = reader_uleb(r);
        def_cfa(m, reg, (int64_t)reader_uleb(r));
        return 0;
    case CFA_DEF_CFA_SF:
        reg = reader_uleb(r);
        def_cfa(m, reg, scaled(m, reader_sleb(r)));
        return 0;
    case CFA_DEF_CFA_REGISTER: def_cfa(m, reader_uleb(r), m->now.cfa.offset); return 0;
    case CFA_DEF_CFA_OFFSET: m->now.cfa.offset = (int64_t)reader_uleb(r); return 0;
    case CFA_DEF_CFA_OFFSET_SF: m->now.cfa.offset = scaled(m, reader_sleb(r)); return 0;
    case CFA_DEF_CFA_EXPRESSION: m->now.cfa = expression_read(reader_take(r, reader_uleb(r))); return 0;
    case CFA_GNU_ARGS_SIZE: (void)reader_uleb(r); return 0;
    default: return -EBADMSG;
    }
}

static int run(struct machine *m, struct bytes program)
{
    struct reader r = reader_of(program);
    while (reader_left(&r) > 0) {
        uint8_t op = reader_u8(&r), low = op & 0x3f;
        int result = 0;
        if ((op & 0xc0) == CFA_ADVANCE_LOC)
            result = advance(m, low);
        else if ((op & 0xc0) == CFA_OFFSET)
            set(m, low, WHERE_AT_CFA, scaled(m, (int64_t)reader_uleb(&r)));
        else if ((op & 0xc0) == CFA_RESTORE)
            restore(m, low);
        else if (!run_register(m, &r, op))
            result = run_other(m, &r, op);
        if (result < 0 || r.is_bad)
            return -EBADMSG;
    }
    return 0;
}

int cfi_run(const struct cfi_common *common, const struct cfi_function *function, cfi_row_fn row, void *user)
{
    struct machine m = {
        .common = common, .location = function->start, .end = function->start + function->size};
    m.now.ra = (struct saved){WHERE_UNKNOWN, 0};
    int result = run(&m, common->program);
    m.initial = m.now;
    m.row = row;
    m.user = user;
    if (result == 0)
        result = run(&m, function->program);
    if (result == 0) {
        emit(&m);
    } else if (m.location < m.end) {
        struct unwind_rule nothing = unknown();
        row(user, m.location, &nothing);
    }
    return result;
}

bool cfi_saves(const struct cfi_common *common, const struct cfi_function *function, uint64_t reg,
               int64_t *ret)
{
    struct machine m = {.common = common,
                        .location = function->start,
                        .end = function->start + function->size,
                        .wanted = reg};
    if (run(&m, function->program) < 0 || !m.has_found)
        return false;
    *ret = m.found;
    return true;
}
