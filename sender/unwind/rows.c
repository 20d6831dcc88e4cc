/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a page of a file to rows. The functions around it are found first (functions.h): an FDE of the call
 * frame information, a function of Go's table, a signal restorer. Each is run from its begin (cfi_run,
 * go_run), which calls on_row at each place where the rule changes; what is before the page only says which
 * rule holds at its first byte, where each page has a row, so that the kernel side searches one page alone. A
 * row that says what the one before it says is left out. Short gaps between functions are padding; longer
 * ones are code without information, and get the rule that nothing is known, unless it is a switch of stacks
 * (switches.h).
 */
#include "sender/unwind/rows.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/base/macros.h"
#include "sender/symbolize/elf/dynamic.h"
#include "sender/unwind/functions.h"
#include "sender/unwind/leaf.h"
#include "sender/unwind/switches.h"
#include "sender/unwind/unsaid.h"

/* A gap between functions shorter than this is padding. Code that has no frame information is longer. What is
 * "returned to" behind padding was begun by makecontext(3) or its like; only where a C library is in the file
 * are rows spent on that, an eighth more of them. */
#define PADDING_MAX 16u

/* Functions in one page and around it; compilers align theirs to 16 bytes, and begin none in cold parts that
 * are shorter than a jump. */
#define AROUND_MAX 1024u

/* Bytes of a frame in which a function puts its caller's registers. */
#define FRAME_MAX (1 << 15)

struct rows_file {
    struct functions functions;
    uint64_t abort;    /* file offset of the C library's; 0: it is not in the file */
    uint64_t greenlet; /* … of what a greenlet's stack begins with; likewise */
    uint32_t n_pages;
    struct unsaid *unsaid; /* NULL until it is needed */
    struct function around[AROUND_MAX];
};

struct compiler {
    struct rows *rows;
    uint64_t page;      /* where it begins, file offset */
    uint64_t from, to;  /* what of it is in the segment */
    uint64_t last, end; /* of the function being added: its last row, its end */
    int64_t to_offset;  /* what makes its addresses file offsets */
};

static const struct unwind_rule nothing = {0}, unknown = {.cfa = UNWIND_CFA_UNKNOWN},
                                padding = {.cfa = UNWIND_CFA_PADDING}, restorer = {.cfa = UNWIND_CFA_SIGNAL},
                                root = {.cfa = UNWIND_CFA_ROOT};

/* The number of a rule, the same for equal ones; lately used ones are mostly wanted again. */
static uint16_t rule_number(struct rows *rows, struct unwind_rule rule)
{
    for (uint32_t i = rows->n_rules; i-- > 0;)
        if (memcmp(&rows->rule[i], &rule, sizeof rule) == 0)
            return (uint16_t)i;
    if (rows->n_rules == ROWS_RULES_MAX)
        return rule_number(rows, unknown); /* there from the start */
    rows->rule[rows->n_rules] = rule;
    return (uint16_t)rows->n_rules++;
}

/* From `offset` on, `rule` holds. Offsets ascend. */
static void add(struct compiler *c, uint64_t offset, struct unwind_rule rule)
{
    struct rows *rows = c->rows;
    if (offset >= c->to)
        return;
    uint16_t low = (uint16_t)(max_of(offset, c->from) - c->page), number = rule_number(rows, rule);
    struct unwind_row *before = &rows->row[rows->n - 1];
    if (before->low == low) /* said twice: the later word counts */
        before->rule = number;
    else if (before->rule != number && rows->n < UNWIND_PAGE_ROWS_MAX)
        rows->row[rows->n++] = (struct unwind_row){.low = low, .rule = number};
    else if (before->rule != number) /* no compiler's work: the rest of the page is not known */
        before->rule = rule_number(rows, unknown);
}

static void on_row(void *user, uint64_t address, const struct unwind_rule *rule)
{
    struct compiler *c = user;
    uint64_t offset = address + (uint64_t)c->to_offset;
    if (offset < c->last || offset >= c->end)
        return;
    c->last = offset;
    add(c, offset, *rule);
}

static void on_unsaid_row(void *user, uint64_t address, const struct unwind_rule *rule)
{
    struct unwind_rule is = *rule;
    if (is.cfa == UNWIND_CFA_RSP)
        is.cfa = UNWIND_CFA_UNSAID;
    on_row(user, address, &is);
}

/* What is known of a function before it is run. */
struct opened {
    struct cfi_common common[FUNCTION_FRAMES + 1]; /* of each section the one read last */
    struct cfi_function frames;
    uint64_t start, size; /* ELF addresses */
};

static bool open_function(struct functions *f, const struct function *one, struct opened *ret)
{
    size_t at = one->entry;
    switch (one->source) {
    case FUNCTION_DEBUG:
    case FUNCTION_FRAMES:
        if (cfi_next(one->source == FUNCTION_DEBUG ? &f->debug : &f->image.frames, &at,
                     &ret->common[one->source], &ret->frames) != 1)
            return false;
        ret->start = ret->frames.start;
        /* In rt_sigreturn the next instruction is the one behind, where no function is yet. */
        ret->size = ret->frames.size + ret->common[one->source].is_signal;
        return true;
    case FUNCTION_GO: return go_function(&f->go, (uint32_t)one->entry, &ret->start, &ret->size);
    case FUNCTION_RESTORER:
        ret->start = 0;
        ret->size = IMAGE_RESTORER_SIZE + 1;
        return true;
    }
    return false;
}

static void run_function(struct compiler *c, struct functions *f, const struct function *one,
                         struct opened *opened)
{
    int r = 0;
    c->last = one->offset;
    c->to_offset = (int64_t)(one->offset - opened->start);
    if (one->source == FUNCTION_RESTORER)
        add(c, one->offset, restorer);
    else if (one->source == FUNCTION_GO)
        r = go_run(&f->go, (uint32_t)one->entry, on_row, c);
    else
        r = cfi_run(&opened->common[one->source], &opened->frames, on_row, c);
    if (r < 0) { /* what holds must not be the function's before */
        c->rows->n_damaged++;
        add(c, c->last, unknown);
    }
}

/* Gives the byte at an offset a rule of its own, where those around it have one already. */
static void insert(struct compiler *c, uint64_t offset, struct unwind_rule rule)
{
    struct rows *rows = c->rows;
    uint16_t low = (uint16_t)(offset - c->page), number = rule_number(rows, rule);
    uint32_t i = first_where(rows->n, j, rows->row[j].low > low) - 1, n_behind = rows->n - i - 1;
    struct unwind_row before = rows->row[i];
    bool begins = before.low == low;
    bool ends = offset + 1 >= c->to || (n_behind > 0 && rows->row[i + 1].low == low + 1);
    uint32_t n_more = (begins ? 0 : 1) + (ends ? 0 : 1), at = begins ? i : i + 1;
    if (rows->n + n_more > UNWIND_PAGE_ROWS_MAX)
        return;
    memmove(&rows->row[i + 1 + n_more], &rows->row[i + 1], n_behind * sizeof *rows->row);
    rows->row[at] = (struct unwind_row){.low = low, .rule = number};
    if (!ends)
        rows->row[at + 1] = (struct unwind_row){.low = (uint16_t)(low + 1), .rule = before.rule};
    rows->n += n_more;
}

/* Whether a function leaves a register as it found it (psABI figure 3.4): rbx, r12 to r15. */
static bool is_kept(uint8_t reg)
{
    return reg == 3 || reg >= 12;
}

/* Where the function at `offset` puts a register; false: it does not say so, or none begins there. */
static bool find_saved(struct functions *f, const struct image_segment *segment, uint64_t offset, uint8_t reg,
                       struct opened *opened, int64_t *ret)
{
    struct function around[8];
    if (offset < segment->offset || offset - segment->offset >= segment->size)
        return false;
    uint32_t n = functions_around(f, segment, offset, offset + 1, around, ARRAY_LEN(around));
    for (uint32_t i = 0; i < n; i++)
        if (around[i].offset == offset && around[i].source <= FUNCTION_FRAMES &&
            open_function(f, &around[i], opened))
            return cfi_saves(&opened->common[around[i].source], &opened->frames, reg, ret);
    return false;
}

/* Whether the function at `offset` calls nobody and leaves a register alone. */
static bool is_leaf(struct functions *f, const struct image_segment *segment, uint64_t offset, uint8_t reg)
{
    uint8_t code[LEAF_MAX];
    if (offset < segment->offset || offset - segment->offset >= segment->size)
        return false;
    const uint64_t room = segment->size - (offset - segment->offset);
    const size_t n =
        source_read_some(f->image.source, offset, code, (size_t)min_of(room, (uint64_t)LEAF_MAX));
    return leaf_leaves(bytes_of(code, n), reg);
}

/* What is called by code whose frame is found by a register, of which a caller's frame knows nothing, keeps
 * that register in its own frame, which ends where rsp is behind the call: so lead the ways out of
 * _dl_runtime_resolve, which looks up what a program calls for the first time. Or it is assembly, a part of
 * its caller, that does not touch it: OpenSSL's AES-GCM. `rule`: what is right behind such a call. */
static bool rule_behind(struct functions *f, const struct image_segment *segment, uint64_t target,
                        struct opened *opened, struct unwind_rule *rule)
{
    const uint8_t reg = (uint8_t)(rule->cfa - UNWIND_CFA_REGISTER);
    int64_t slot;
    if (!is_kept(reg)) {
        rule->cfa += UNWIND_CFA_KEPT - UNWIND_CFA_REGISTER;
        return is_leaf(f, segment, target, reg);
    }
    if (rule->cfa_offset < 0 || rule->cfa_offset > 255 ||
        !find_saved(f, segment, target, reg, opened, &slot) || slot < -FRAME_MAX || slot > 0)
        return false;
    rule->cfa = UNWIND_CFA_AT_RSP;
    rule->cfa_offset += (int32_t)slot * 256;
    return true;
}

/* `first`: the function's first row. */
static void add_calls(struct compiler *c, struct functions *f, const struct image_segment *segment,
                      uint32_t first, struct opened *opened)
{
    enum { CALL = 0xe8, CALL_SIZE = 5 };
    struct rows *rows = c->rows;
    for (uint32_t i = first; i < rows->n; i++) {
        const struct unwind_rule is = rows->rule[rows->row[i].rule];
        uint64_t from = c->page + rows->row[i].low,
                 to = i + 1 < rows->n ? c->page + rows->row[i + 1].low : min_of(c->end, c->to);
        uint8_t code[UNWIND_PAGE_SIZE + CALL_SIZE];
        if (is.cfa < UNWIND_CFA_REGISTER || is.cfa >= UNWIND_CFA_KEPT || to <= from)
            continue;
        uint64_t begin = max_of(from, segment->offset + CALL_SIZE) - (CALL_SIZE - 1);
        size_t n = source_read_some(f->image.source, begin, code, to - begin);
        for (size_t at = 0; at + CALL_SIZE <= n; at++) {
            struct unwind_rule rule = is;
            int32_t distance;
            memcpy(&distance, code + at + 1, sizeof distance);
            uint64_t behind = begin + at + CALL_SIZE;
            if (code[at] != CALL ||
                !rule_behind(f, segment, behind + (uint64_t)(int64_t)distance, opened, &rule))
                continue;
            insert(c, behind - 1, rule); /* a return address is looked up one before */
            break;                       /* what is behind it is the next row but one */
        }
    }
}

/* Where main is, which nobody but the beginning of the program tells of; UINT64_MAX: it does not. */
static uint64_t find_main(const struct image *image)
{
    uint8_t begin[96];
    if (!image->entry)
        return UINT64_MAX;
    int64_t at =
        unsaid_main(bytes_of(begin, source_read_some(image->source, image->entry, begin, sizeof begin)));
    return at ? image->entry + (uint64_t)at : UINT64_MAX;
}

/* Code that nothing is said of, from `from` to `to`. */
static void add_unsaid(struct compiler *c, struct rows_file *f, uint64_t from, uint64_t to)
{
    const struct image *image = &f->functions.image;
    add(c, from, nothing);
    /* Of the page, and what began before it. */
    uint64_t begin = max_of(from, c->from - min_of(c->from, (uint64_t)UNSAID_BEFORE));
    to = min_of(to, begin + UNSAID_MAX);
    if (begin >= c->to || to <= c->from)
        return;
    if (!f->unsaid)
        f->unsaid = malloc(sizeof *f->unsaid);
    if (!f->unsaid)
        return;
    const size_t n = source_read_some(image->source, begin, f->unsaid->code, to - begin);
    struct bytes code = bytes_of(f->unsaid->code, n);
    const uint64_t main = find_main(image);
    bool is_begin = begin == from;
    c->last = begin;
    c->end = to;
    for (;;) {
        size_t first = code.n, at;
        const size_t near = (size_t)(max_of(begin + SWITCH_MAX, c->from) - SWITCH_MAX - begin);
        const size_t behind = (size_t)min_of((uint64_t)code.n, max_of(begin, c->to + SWITCH_MAX) - begin);
        bool has_switch = near < behind && switches_find(bytes_of(code.p + near, behind - near),
                                                         (uint32_t)((begin + near) % 16), &at);
        if (has_switch)
            first = near + at;
        c->to_offset = (int64_t)begin;
        unsaid_run(f->unsaid, bytes_of(code.p, first), is_begin, image->entry - begin, main - begin,
                   on_unsaid_row, c);
        if (!has_switch)
            return;
        begin += first;
        c->to_offset = (int64_t)begin;
        at = switches_run(bytes_of(code.p + first, behind - first), (uint32_t)(begin % 16), on_row, c);
        begin += at;
        code = bytes_from(code, first + at);
        is_begin = true;
    }
}

static void compile(struct compiler *c, struct rows_file *f, const struct image_segment *segment)
{
    struct functions *functions = &f->functions;
    struct opened opened = {.common = {{.at = SIZE_MAX}, {.at = SIZE_MAX}}};
    uint32_t n = functions_around(functions, segment, c->from, c->to, f->around, AROUND_MAX);
    uint64_t segment_end = segment->offset + segment->size;
    uint64_t end = UINT64_MAX;                   /* of what has rows */
    if (n == 0 || f->around[0].offset > c->from) /* before the first function there is no row */
        end = segment->offset;
    add(c, c->from, nothing);
    for (uint32_t i = 0; i < n; i++) {
        const struct function *one = &f->around[i], *next = i + 1 < n ? one + 1 : NULL;
        if (next && next->offset == one->offset)
            continue; /* the same function twice: the last one */
        if (!open_function(functions, one, &opened) || opened.size > segment_end - one->offset)
            continue;
        uint64_t gap = one->offset > end ? one->offset - end : 0;
        if (gap >= PADDING_MAX)
            add_unsaid(c, f, end, one->offset);
        else if (gap > 0 && functions->image.has_c_library)
            add(c, end, padding);
        if (one->offset >= c->to)
            return;
        /* Where two overlap, the next begins where it says. */
        end = one->offset + opened.size;
        end = next ? min_of(end, next->offset) : end;
        end -= end == f->abort && end > one->offset;
        c->end = end;
        uint32_t first = c->rows->n - 1; /* the row before, which may become the function's */
        if (f->greenlet && one->offset == f->greenlet)
            add(c, one->offset, root);
        else
            run_function(c, functions, one, &opened);
        add_calls(c, functions, segment, first, &opened);
    }
    if (end < segment_end)
        add_unsaid(c, f, end, segment_end);
}

/* The file offset of a function by its name; 0: it is not in the file. */
static uint64_t find_function(const struct image *image, const char *name)
{
    struct dynamic d;
    Elf64_Sym symbol;
    uint64_t ret, room;
    return dynamic_open(&d, image->source) && dynamic_find(&d, name, STT_FUNC, &symbol, NULL) &&
                   image_offset(image, symbol.st_value, &ret, &room)
               ? ret
               : 0;
}

int rows_open(struct rows_file **ret, const struct source *s)
{
    struct rows_file *f = calloc(1, sizeof *f);
    if (!f)
        return -ENOMEM;
    int r = functions_open(&f->functions, s);
    if (r != 0) {
        free(f);
        return r == IMAGE_NONE ? ROWS_NONE : r;
    }
    const struct image *image = &f->functions.image;
    /* libcoro's stacks return to abort(3) at their root, which follows on what ends with a call of it: the
       byte before it is padding as well. */
    f->abort = image->has_c_library ? find_function(image, "abort") : 0;
    /* Greenlets (gevent) take turns on one stack: each has a part of it, which is copied to the heap while
       others run. Below what begins one there is what the last one of those has left. */
    f->greenlet = find_function(image, "_ZN8greenlet12UserGreenlet13g_initialstubEPv");
    if (image->n_segments > 0) {
        const struct image_segment *last = &image->segment[image->n_segments - 1];
        f->n_pages = (uint32_t)min_of((last->offset + last->size + UNWIND_PAGE_SIZE - 1) >> UNWIND_PAGE_BITS,
                                      (uint64_t)UNWIND_FILE_PAGES);
    }
    *ret = f;
    return 0;
}

struct rows_file *rows_close(struct rows_file *f)
{
    if (f) {
        functions_close(&f->functions);
        free(f->unsaid);
    }
    free(f);
    return NULL;
}

uint32_t rows_pages(const struct rows_file *f)
{
    return f->n_pages;
}

uint32_t rows_code(const struct rows_file *f)
{
    const struct image *image = &f->functions.image;
    const struct image_segment *first = &image->segment[0]; /* one of no size, where there is none */
    for (uint32_t i = 1; i < image->n_segments; i++)
        if (image->segment[i].address < first->address)
            first = &image->segment[i];
    return (uint32_t)first->offset;
}

void rows_page(struct rows_file *f, uint32_t page, struct rows *ret)
{
    const struct image *image = &f->functions.image;
    struct compiler c = {.rows = ret, .page = (uint64_t)page << UNWIND_PAGE_BITS};
    ret->n_damaged = 0;
    ret->rule[0] = nothing;
    ret->rule[1] = unknown;
    ret->n_rules = 2;
    ret->row[0] = (struct unwind_row){0};
    ret->n = 1;
    for (uint32_t i = 0; i < image->n_segments && page < f->n_pages; i++) {
        const struct image_segment *segment = &image->segment[i];
        c.from = max_of(segment->offset, c.page);
        c.to = min_of(segment->offset + segment->size, c.page + UNWIND_PAGE_SIZE);
        if (c.from >= c.to)
            continue;
        compile(&c, f, segment);
        c.from = c.to;
        c.to = c.page + UNWIND_PAGE_SIZE;
        add(&c, c.from, nothing);
    }
    if (ret->n == 1 && ret->row[0].rule == 0)
        ret->n = 0;
}

struct unwind_rule rows_find(const struct rows *rows, uint32_t low)
{
    uint32_t at = 0, n = rows->n;
    for (uint32_t half; (half = n / 2) > 0; n -= half)
        if (rows->row[at + half].low <= low)
            at += half;
    return rows->n ? rows->rule[rows->row[at].rule] : nothing;
}
