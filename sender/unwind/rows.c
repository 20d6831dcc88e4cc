/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a file to rows. All that is a function is collected first, as a span of file offsets with a word on
 * where its rows come from: an FDE of the call frame information, a function of Go's table, a signal
 * restorer. Spans are sorted: a file has a fifth as many as rows, and within one rows come ascending, so rows
 * need no sorting.
 *
 * Then each span is run (cfi_run, go_run), which calls on_row at each place where the rule changes. A row
 * that says what the one before it says is left out; the rules themselves are interned in a hash table, for a
 * file has hundreds where it has a hundred thousand rows. A page begins with a row of its own at 0 that
 * repeats the rule in force (open_pages), so that the kernel side searches one page alone. Short gaps between
 * spans are padding; longer ones are code without information, and get the rule that nothing is known.
 *
 * A limit reached (FULL) ends the list, not the file: what there is serves.
 */
#include "sender/unwind/rows.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/base/hash.h"
#include "proto/base/macros.h"
#include "sender/unwind/go.h"
#include "sender/unwind/image.h"

/* A gap between functions shorter than this is padding. Code that has no frame information is longer. What is
 * "returned to" behind padding was begun by makecontext(3) or its like; only where a C library is in the file
 * are rows spent on that, an eighth more of them. */
#define PADDING_MAX 16u

/* Hash slots for the distinct rules: twice their number. */
#define RULE_SLOTS (2 * ROWS_RULES_MAX)

/* What a span's entry is, if it is no offset of an FDE: a function of Go's, by number; or none, the span
 * being the code of a signal restorer and the byte before it. */
#define GO_FUNCTION   (1u << 30)
#define RESTORER      UINT32_MAX
#define RESTORER_SIZE 10u
_Static_assert(IMAGE_FRAMES_MAX <= GO_FUNCTION && ROWS_FUNCTIONS_MAX <= GO_FUNCTION, "all fit");

/* A function as it lies in the file. */
struct span {
    uint64_t offset;
    uint32_t size;
    uint32_t entry; /* where its FDE begins in the section, or as above */
};

struct compiler {
    struct rows rows;
    struct image image;
    struct go_frames go; /* .n 0: no Go program */
    struct span *span;
    uint32_t n_spans, cap_spans;
    uint16_t slot[RULE_SLOTS]; /* of rules: index + 1, 0 empty */
    uint32_t unknown, padding; /* the rules of these names */
    uint32_t current;          /* the rule that holds from the last row on */
    uint32_t next_page;        /* the first one that has no rows yet */
    uint64_t last, end;        /* of the function being added, file offsets: its last row, its end */
    int64_t to_offset;         /* what makes its addresses file offsets */
    bool has_signal_frame;     /* a C library is in the file */
    int failure;
};

/* Condition: a limit is reached; what there is counts. */
#define FULL 1

static int grow(void **p, uint32_t *cap, uint32_t n, uint32_t max, size_t size)
{
    if (n < *cap)
        return 0;
    if (n >= max)
        return FULL;
    uint32_t more = min_of(*cap ? 2 * *cap : 256, max);
    void *grown = realloc(*p, more * size);
    if (!grown)
        return -ENOMEM;
    *p = grown;
    *cap = more;
    return 0;
}

/* Adds a function if it lies in code. 0, FULL or -ENOMEM. */
static int add_span(struct compiler *c, uint64_t start, uint64_t size, uint32_t entry)
{
    uint64_t offset, room;
    if (!image_offset(&c->image, start, &offset, &room) || size > room || size > UINT32_MAX)
        return 0; /* functions that the linker discarded begin at 0: no damage */
    int r = grow((void **)&c->span, &c->cap_spans, c->n_spans, ROWS_FUNCTIONS_MAX, sizeof *c->span);
    if (r == 0)
        c->span[c->n_spans++] = (struct span){offset, (uint32_t)size, entry};
    return r;
}

static int collect_entries(struct compiler *c)
{
    struct cfi_common common = {.at = SIZE_MAX};
    struct cfi_function f;
    size_t at = 0;
    for (;;) {
        size_t entry = at;
        int r = cfi_next(&c->image.frames, &at, &common, &f);
        if (r == 0)
            return 0;
        c->has_signal_frame |= r == 1 && common.is_signal;
        r = r == 1 ? add_span(c, f.start, f.size, (uint32_t)entry) : 0;
        if (r != 0)
            return r;
    }
}

static int collect_go(struct compiler *c, const struct source *s)
{
    int r = go_open(&c->go, s);
    if (r != 0)
        return r == GO_NONE ? 0 : r;
    for (uint32_t i = 0; i < c->go.n && r == 0; i++) {
        uint64_t start, size;
        if (go_function(&c->go, i, &start, &size))
            r = add_span(c, start, size, GO_FUNCTION | i);
    }
    return r;
}

/* Signal restorers that no entry describes. One is "returned to" at its first byte, and looked up by the byte
 * before, as are all return addresses. */
static int add_restorers(struct compiler *c)
{
    for (uint32_t i = 0; i < c->image.n_restorers; i++) {
        int r = grow((void **)&c->span, &c->cap_spans, c->n_spans, ROWS_FUNCTIONS_MAX, sizeof *c->span);
        if (r != 0)
            return r;
        if (c->image.restorer[i] > 0)
            c->span[c->n_spans++] = (struct span){c->image.restorer[i] - 1, RESTORER_SIZE, RESTORER};
    }
    return 0;
}

/* Everything that is a function; of more than ROWS_FUNCTIONS_MAX the first. */
static int collect(struct compiler *c, const struct source *s)
{
    int r = collect_entries(c);
    r = r ? r : collect_go(c, s);
    r = r ? r : add_restorers(c);
    return r == FULL ? 0 : r;
}

static int by_offset(const void *a, const void *b)
{
    const struct span *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return x->entry < y->entry ? -1 : x->entry > y->entry;
}

static void sort_spans(struct compiler *c)
{
    for (uint32_t i = 1; i < c->n_spans; i++) {
        if (by_offset(&c->span[i - 1], &c->span[i]) > 0) {
            qsort(c->span, c->n_spans, sizeof *c->span, by_offset);
            return;
        }
    }
}

/* The number of a rule, the same for equal ones. */
static uint32_t rule_number(struct compiler *c, const struct unwind_rule *rule)
{
    uint64_t bits;
    memcpy(&bits, rule, sizeof bits);
    uint32_t slot = (uint32_t)(hash_mix(bits, 0) % RULE_SLOTS);
    for (; c->slot[slot]; slot = (slot + 1) % RULE_SLOTS) {
        uint32_t number = c->slot[slot] - 1u;
        if (memcmp(&c->rows.rule[number], rule, sizeof *rule) == 0)
            return number;
    }
    if (c->rows.n_rules == ROWS_RULES_MAX)
        return c->unknown;
    c->rows.rule[c->rows.n_rules] = *rule;
    c->slot[slot] = (uint16_t)(c->rows.n_rules + 1);
    return c->rows.n_rules++;
}

static void put(struct compiler *c, uint32_t low, uint32_t rule)
{
    struct rows *rows = &c->rows;
    if (c->failure)
        return;
    uint32_t first = rows->page[c->next_page - 1];
    if (rows->n > first && rows->row[rows->n - 1].low == low) { /* said twice: the later word counts */
        rows->row[rows->n - 1].rule = (uint16_t)rule;
        return;
    }
    if (rows->n > first && rows->row[rows->n - 1].rule == rule)
        return;
    if (rows->n - first == UNWIND_PAGE_ROWS_MAX) { /* no compiler's work: the rest of the page is not known */
        rows->row[rows->n - 1].rule = (uint16_t)c->unknown;
        return;
    }
    c->failure = grow((void **)&rows->row, &rows->cap, rows->n, ROWS_MAX, sizeof *rows->row);
    if (c->failure == 0)
        rows->row[rows->n++] = (struct unwind_row){.low = (uint16_t)low, .rule = (uint16_t)rule};
}

/* Opens pages up to `page`, each beginning with the rule that holds there; those where nothing is known stay
 * empty. */
static void open_pages(struct compiler *c, uint32_t page)
{
    while (c->next_page <= page) {
        c->rows.page[c->next_page++] = c->rows.n;
        if (c->current != 0)
            put(c, 0, c->current);
    }
}

/* From `offset` on, `rule` holds. Offsets ascend. */
static void add(struct compiler *c, uint64_t offset, uint32_t rule)
{
    uint32_t page = (uint32_t)(offset >> UNWIND_PAGE_BITS) - c->rows.first_page;
    uint32_t low = offset & (UNWIND_PAGE_SIZE - 1);
    open_pages(c, page);
    if (rule == c->current)
        return;
    if (low > 0 && c->rows.n == c->rows.page[page])
        put(c, 0, 0); /* each page's first row is at 0 */
    put(c, low, rule);
    c->current = rule;
}

static void on_row(void *user, uint64_t address, const struct unwind_rule *rule)
{
    struct compiler *c = user;
    uint64_t offset = address + (uint64_t)c->to_offset;
    if (offset < c->last || offset >= c->end || c->failure)
        return;
    c->last = offset;
    add(c, offset, rule_number(c, rule));
}

/* Rows of one span, up to c->end. */
static void compile_span(struct compiler *c, const struct span *span, struct cfi_common *common)
{
    static const struct unwind_rule restorer = {.cfa = UNWIND_CFA_SIGNAL};
    struct cfi_function f;
    uint64_t start = 0, size;
    size_t at = span->entry;
    int r = 0;
    c->last = span->offset;
    c->rows.n_functions++;
    if (span->entry == RESTORER) {
        add(c, span->offset, rule_number(c, &restorer));
    } else if (span->entry & GO_FUNCTION) {
        uint32_t i = span->entry & ~GO_FUNCTION;
        r = go_function(&c->go, i, &start, &size) ? 0 : -EBADMSG;
        c->to_offset = (int64_t)(span->offset - start);
        r = r < 0 ? r : go_run(&c->go, i, on_row, c);
    } else if (cfi_next(&c->image.frames, &at, common, &f) == 1) {
        c->to_offset = (int64_t)(span->offset - f.start);
        r = cfi_run(common, &f, on_row, c);
    }
    if (r < 0) { /* what holds must not be the function's before */
        c->rows.n_damaged++;
        add(c, c->last, c->unknown);
    }
}

static int compile_spans(struct compiler *c)
{
    struct cfi_common common = {.at = SIZE_MAX};
    uint64_t end = 0; /* of what has rows */
    for (uint32_t i = 0; i < c->n_spans && c->failure == 0; i++) {
        const struct span *span = &c->span[i], *next = i + 1 < c->n_spans ? span + 1 : NULL;
        if (next && next->offset == span->offset)
            continue; /* the same function twice: the last one */
        uint64_t gap = end && span->offset > end ? span->offset - end : 0;
        if (gap >= PADDING_MAX)
            add(c, end, 0);
        else if (gap > 0 && c->has_signal_frame)
            add(c, end, c->padding);
        /* Where two overlap, the next begins where it says. */
        end = span->offset + span->size;
        c->end = end = next ? min_of(end, next->offset) : end;
        compile_span(c, span, &common);
    }
    if (end && c->failure == 0 && end < (uint64_t)(c->rows.first_page + c->rows.n_pages) << UNWIND_PAGE_BITS)
        add(c, end, 0);
    return c->failure == FULL ? 0 : c->failure;
}

/* Room for the pages from the first function to the last. */
static int make_pages(struct compiler *c)
{
    uint64_t first = c->span[0].offset >> UNWIND_PAGE_BITS, last = first;
    for (uint32_t i = 0; i < c->n_spans; i++) {
        uint64_t page = (c->span[i].offset + c->span[i].size - 1) >> UNWIND_PAGE_BITS;
        if (page - first < ROWS_PAGES_MAX && page > last)
            last = page;
    }
    while (c->n_spans > 0) { /* what lies farther away is left out */
        const struct span *span = &c->span[c->n_spans - 1];
        if ((span->offset + span->size - 1) >> UNWIND_PAGE_BITS <= last)
            break;
        c->n_spans--;
    }
    c->rows.first_page = (uint32_t)first;
    c->rows.n_pages = (uint32_t)(last - first + 1);
    c->rows.page = calloc(c->rows.n_pages + 1, sizeof *c->rows.page);
    return c->rows.page && last < UINT32_MAX ? 0 : -ENOMEM;
}

static int compile(struct compiler *c, const struct source *s)
{
    static const struct unwind_rule nothing = {0}, unknown = {.cfa = UNWIND_CFA_UNKNOWN},
                                    padding = {.cfa = UNWIND_CFA_PADDING};
    int r = collect(c, s);
    if (r < 0 || c->n_spans == 0)
        return r;
    sort_spans(c);
    r = make_pages(c);
    if (r < 0)
        return r;
    c->rows.rule = malloc(ROWS_RULES_MAX * sizeof *c->rows.rule);
    if (!c->rows.rule)
        return -ENOMEM;
    (void)rule_number(c, &nothing);
    c->unknown = rule_number(c, &unknown);
    c->padding = rule_number(c, &padding);
    r = compile_spans(c);
    if (r < 0)
        return r;
    c->current = 0;
    if (c->next_page < c->rows.n_pages)
        open_pages(c, c->rows.n_pages - 1);
    c->rows.page[c->rows.n_pages] = c->rows.n;
    return 0;
}

int rows_compile(struct rows *ret, const struct source *s)
{
    autofree struct compiler *c = calloc(1, sizeof *c);
    if (!c)
        return -ENOMEM;
    int r = image_read(&c->image, s);
    r = r == IMAGE_NONE ? ROWS_NONE : r == 0 ? compile(c, s) : r;
    image_release(&c->image);
    go_close(&c->go);
    free(c->span);
    if (r != 0)
        rows_release(&c->rows);
    else
        *ret = c->rows;
    return r;
}

void rows_release(struct rows *rows)
{
    free(rows->row);
    free(rows->page);
    free(rows->rule);
    *rows = (struct rows){0};
}

struct unwind_rule rows_find(const struct rows *rows, uint64_t offset)
{
    static const struct unwind_rule nothing = {0};
    uint64_t page = (offset >> UNWIND_PAGE_BITS) - rows->first_page;
    if (page >= rows->n_pages || rows->page[page] == rows->page[page + 1])
        return nothing;
    uint32_t from = rows->page[page], n = rows->page[page + 1] - from;
    uint32_t low = offset & (UNWIND_PAGE_SIZE - 1);
    for (uint32_t half; (half = n / 2) > 0; n -= half)
        if (rows->row[from + half].low <= low)
            from += half;
    return rows->rule[rows->row[from].rule];
}
