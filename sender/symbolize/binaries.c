#include "sender/symbolize/binaries.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/intern.h"
#include "proto/base/macros.h"
#include "sender/symbolize/pclntab.h"
#include "sender/symbolize/ranges.h"
#include "sender/symbolize/symtab.h"

/* Addresses answered by one pass over a symbol table. */
#define BATCH 4096u

struct entry {
    struct binary binary;
    struct source source;
    int fd; /* -1: closed, or memory */
    bool is_memory;
    bool has_names; /* there is a table to look in */
    struct timespec changed;
    struct ranges ranges;
    uint64_t *want;
    uint32_t n_want, cap_want;
    uint32_t idle; /* windows without a sample */
};

struct binaries {
    struct entry *entry[BINARIES_MAX]; /* NULL: free; the number is the index + 1 */
    uint32_t n, n_open;
    struct intern names;
    size_t name_bytes;
    uint64_t looked_up, dropped;
};

struct binaries *binaries_new(void)
{
    return calloc(1, sizeof(struct binaries));
}

static void entry_close(struct binaries *b, struct entry *e)
{
    if (e->fd >= 0) {
        close(e->fd);
        e->fd = -1;
        b->n_open--;
    }
}

static void entry_free(struct binaries *b, struct entry *e)
{
    entry_close(b, e);
    ranges_release(&e->ranges);
    free(e->want);
    free(e);
}

struct binaries *binaries_free(struct binaries *b)
{
    if (!b)
        return NULL;
    for (uint32_t i = 0; i < BINARIES_MAX; i++)
        if (b->entry[i])
            entry_free(b, b->entry[i]);
    intern_release(&b->names);
    free(b);
    return NULL;
}

/* A few hundred files, looked up once a region: regions remember the number. */
uint32_t binaries_find(const struct binaries *b, const struct binary_key *key)
{
    for (uint32_t i = 0; i < BINARIES_MAX; i++) {
        const struct entry *e = b->entry[i];
        if (e && e->binary.key.inode == key->inode && e->binary.key.major == key->major &&
            e->binary.key.minor == key->minor)
            return i + 1;
    }
    return 0;
}

/* Reads the headers, in place of what is known. */
static void entry_read(struct entry *e)
{
    struct binary *binary = &e->binary;
    memset(&binary->elf, 0, sizeof binary->elf);
    binary->is_elf = elf_read(&binary->elf, &e->source) == 0;
    *binary->htlhash = 0;
    if (binary->is_elf)
        (void)elf_htlhash(&e->source, binary->htlhash); /* without it the other build ids have to do */
    const struct elf *elf = &binary->elf;
    e->has_names = elf->symbols.size || elf->dynamic.size || elf->go_lines.size;
    e->ranges.n = e->ranges.n_sorted = 0;
}

static uint32_t add(struct binaries *b, const struct binary_key *key, const char *name, struct entry *fresh)
{
    for (uint32_t i = 0; fresh && i < BINARIES_MAX; i++) {
        if (b->entry[i])
            continue;
        fresh->binary.key = *key;
        snprintf(fresh->binary.name, sizeof fresh->binary.name, "%s", name);
        entry_read(fresh);
        b->entry[i] = fresh;
        b->n++;
        return i + 1;
    }
    b->dropped++;
    free(fresh);
    return 0;
}

uint32_t binaries_add(struct binaries *b, const struct binary_key *key, const char *name, int fd)
{
    struct stat st;
    struct entry *e = b->n_open < BINARIES_OPEN_MAX ? calloc(1, sizeof *e) : NULL;
    if (e && (fstat(fd, &st) < 0 || source_file(&e->source, fd) < 0)) {
        free(e);
        e = NULL;
    }
    if (e) {
        e->fd = fd;
        e->changed = st.st_mtim;
    }
    uint32_t number = add(b, key, name, e);
    if (number)
        b->n_open++;
    else
        close(fd);
    return number;
}

uint32_t binaries_add_memory(struct binaries *b, const struct binary_key *key, const char *name,
                             struct bytes image)
{
    struct entry *e = calloc(1, sizeof *e);
    if (e) {
        e->fd = -1;
        e->is_memory = true;
        e->source = source_memory(image);
    }
    return add(b, key, name, e);
}

static struct entry *entry_of(const struct binaries *b, uint32_t number)
{
    return b->entry[number - 1];
}

const struct binary *binaries_get(const struct binaries *b, uint32_t number)
{
    const struct entry *e = number - 1 < BINARIES_MAX ? entry_of(b, number) : NULL;
    return e ? &e->binary : NULL;
}

static void note(struct binaries *b, struct entry *e, uint64_t address)
{
    if (e->n_want == e->cap_want) {
        uint32_t cap = e->cap_want ? 2 * e->cap_want : 32;
        uint64_t *more = cap <= BINARIES_WANT_MAX ? realloc(e->want, cap * sizeof *more) : NULL;
        if (!more) {
            b->dropped++;
            return;
        }
        e->want = more;
        e->cap_want = cap;
    }
    e->want[e->n_want++] = address;
}

bool binaries_want(struct binaries *b, uint32_t number, uint64_t address)
{
    struct entry *e = entry_of(b, number);
    e->idle = 0;
    if (!e->has_names || ranges_find(&e->ranges, address))
        return false;
    if (e->fd < 0 && !e->is_memory)
        return b->n_open < BINARIES_OPEN_MAX;
    note(b, e, address);
    return false;
}

void binaries_reopen(struct binaries *b, uint32_t number, uint64_t address, int fd)
{
    struct entry *e = entry_of(b, number);
    struct stat st;
    struct source source;
    if (e->fd >= 0 || e->is_memory || b->n_open >= BINARIES_OPEN_MAX || fstat(fd, &st) < 0 ||
        source_file(&source, fd) < 0) {
        close(fd);
        return;
    }
    bool changed = source.size != e->source.size || st.st_mtim.tv_sec != e->changed.tv_sec ||
                   st.st_mtim.tv_nsec != e->changed.tv_nsec;
    e->fd = fd;
    e->source = source;
    e->changed = st.st_mtim;
    b->n_open++;
    if (changed)
        entry_read(e);
    note(b, e, address);
}

/* The interned number + 1 of a string; 0 for "" or when memory is out. */
static uint32_t name_number(struct binaries *b, struct bytes s)
{
    if (s.n == 0)
        return 0;
    uint32_t before = b->names.n, number = intern_add(&b->names, s);
    if (number == INTERN_NONE)
        return 0;
    if (b->names.n > before)
        b->name_bytes += s.n + sizeof(struct bytes) + 24; /* the tables of intern, about */
    return number + 1;
}

static bool in_last_range(const struct entry *e, uint64_t address)
{
    const struct range *last = e->ranges.n ? &e->ranges.range[e->ranges.n - 1] : NULL;
    return last && e->ranges.n > e->ranges.n_sorted && address >= last->start && address < last->end;
}

/* Names what Go's table knows; what it does not stays in want. */
static void resolve_go(struct binaries *b, struct entry *e)
{
    struct pclntab table;
    struct pclntab_line line;
    if (e->binary.elf.go_lines.size == 0 || pclntab_open(&table, &e->source, &e->binary.elf) < 0)
        return;
    uint32_t left = 0;
    for (uint32_t i = 0; i < e->n_want; i++) {
        if (in_last_range(e, e->want[i]))
            continue;
        if (pclntab_find(&table, e->want[i], &line) < 0) {
            e->want[left++] = e->want[i];
            continue;
        }
        struct range range = {.start = line.start, .end = line.end, .line = line.line, .is_go = 1};
        range.name = name_number(b, bytes_str(line.name));
        range.file = name_number(b, bytes_str(line.file));
        (void)ranges_add(&e->ranges, &range);
    }
    e->n_want = left;
}

static void resolve_batch(struct binaries *b, struct entry *e, const uint64_t *address, uint32_t n)
{
    const struct elf *elf = &e->binary.elf;
    autofree struct symtab_answer *answer = malloc(n * sizeof *answer);
    if (!answer)
        return;
    symtab_begin(answer, address, n);
    int r = symtab_search(&e->source, &elf->symbols, &elf->symbol_names, answer, n);
    if (symtab_search(&e->source, &elf->dynamic, &elf->dynamic_names, answer, n) < 0 || r < 0)
        b->dropped++; /* the file is shorter than it was: some names are missing, none is wrong */
    for (uint32_t i = 0; i < n; i++) {
        char name[SYMTAB_NAME_MAX];
        struct range range = {.start = answer[i].start, .end = answer[i].end};
        if (i > 0 && answer[i].start == answer[i - 1].start)
            continue;
        if (answer[i].name_at) {
            size_t length = source_string(&e->source, answer[i].name_at, name, sizeof name);
            range.name = name_number(b, bytes_of(name, length));
        }
        (void)ranges_add(&e->ranges, &range);
    }
}

static int by_value(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static void resolve(struct binaries *b, struct entry *e)
{
    qsort(e->want, e->n_want, sizeof *e->want, by_value);
    uint32_t n = 0;
    for (uint32_t i = 0; i < e->n_want; i++)
        if (n == 0 || e->want[i] != e->want[n - 1])
            e->want[n++] = e->want[i];
    e->n_want = n;
    b->looked_up += n;
    resolve_go(b, e);
    for (uint32_t at = 0; at < e->n_want; at += BATCH)
        resolve_batch(b, e, e->want + at, min_of(e->n_want - at, BATCH));
    ranges_settle(&e->ranges);
    free(e->want);
    e->want = NULL;
    e->n_want = e->cap_want = 0;
}

void binaries_resolve(struct binaries *b)
{
    for (uint32_t i = 0; i < BINARIES_MAX; i++) {
        struct entry *e = b->entry[i];
        if (!e)
            continue;
        if (e->n_want > 0)
            resolve(b, e);
        entry_close(b, e);
    }
}

struct binary_name binaries_name(const struct binaries *b, uint32_t number, uint64_t address)
{
    struct binary_name name = {.name = BYTES_LIT(""), .file = BYTES_LIT("")};
    const struct range *range = ranges_find(&entry_of(b, number)->ranges, address);
    if (!range)
        return name;
    if (range->name)
        name.name = intern_get(&b->names, range->name - 1);
    if (range->file)
        name.file = intern_get(&b->names, range->file - 1);
    name.line = range->line;
    name.is_go = range->is_go;
    return name;
}

static size_t memory(const struct binaries *b)
{
    size_t n = b->name_bytes;
    for (uint32_t i = 0; i < BINARIES_MAX; i++)
        n += b->entry[i] ? b->entry[i]->ranges.cap * sizeof(struct range) : 0;
    return n;
}

void binaries_sweep(struct binaries *b)
{
    for (uint32_t i = 0; i < BINARIES_MAX; i++) {
        struct entry *e = b->entry[i];
        if (e && ++e->idle > BINARIES_IDLE_WINDOWS) {
            entry_free(b, e);
            b->entry[i] = NULL;
            b->n--;
        }
    }
    if (memory(b) <= BINARIES_MEMORY_MAX)
        return;
    for (uint32_t i = 0; i < BINARIES_MAX; i++)
        if (b->entry[i])
            ranges_release(&b->entry[i]->ranges);
    intern_release(&b->names);
    b->names = (struct intern){0};
    b->name_bytes = 0;
}

struct binaries_counts binaries_counts(const struct binaries *b)
{
    return (struct binaries_counts){
        .files = b->n, .looked_up = b->looked_up, .dropped = b->dropped, .memory = memory(b)};
}
