/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Of what is not exported:
 *
 * - rb_vm_exec (from 3.3 on) is what rb_iseq_eval ends with a jump to;
 * - vm_exec_core is the longest function that rb_vm_exec calls, by far: it has all instructions in it;
 * - rb_profile_frames begins by looking where the thread is: by a call of __tls_get_addr (ELF Handling For
 *   Thread-Local Storage, 4.1.6), or, in an executable, by the thread pointer (5.5);
 * - rb_id2str compares a number with the last one of the table of symbols, or jumps to what does;
 * - rb_during_gc is four loads and a shift.
 */
#include "sender/runtimes/ruby/binary.h"

#include <string.h>

#include "proto/base/macros.h"
#include "sender/symbolize/elf/eh_index.h"

#define CODE_MAX   8192u
#define BEGIN_MAX  192u /* of a function of which only the beginning matters */
#define CALLS_MAX  256u /* targets looked at */
#define CORE_LEAST 8192u

/* Code of a function. */
struct code {
    uint64_t address;
    size_t n;
    uint8_t byte[CODE_MAX];
};

static bool read_code(struct code *c, const struct dynamic *d, uint64_t address, uint64_t size)
{
    c->address = address;
    c->n = (size_t)min_of(size, (uint64_t)CODE_MAX);
    return c->n > 0 && dynamic_read(d, address, c->byte, c->n);
}

static bool read_function(struct code *c, const struct dynamic *d, const char *name)
{
    Elf64_Sym symbol;
    return dynamic_find(d, name, STT_FUNC, &symbol, NULL) && read_code(c, d, symbol.st_value, symbol.st_size);
}

static int32_t number_at(const struct code *c, size_t at)
{
    int32_t n;
    memcpy(&n, c->byte + at, sizeof n);
    return n;
}

/* What the four bytes before `end` mean that are relative to it. */
static uint64_t target_at(const struct code *c, size_t end)
{
    return c->address + end + (uint64_t)(int64_t)number_at(c, end - 4);
}

/* Where bytes are in a function, from `from` on; c->n: nowhere with four more behind them. */
static size_t find(const struct code *c, size_t from, const char *bytes, size_t n)
{
    for (size_t i = from; i + n + 4 <= c->n; i++)
        if (memcmp(c->byte + i, bytes, n) == 0)
            return i;
    return c->n;
}
#define FIND(c, from, bytes) find(c, from, bytes, sizeof bytes - 1)

bool ruby_binary_is(struct ruby_binary *ret, const struct source *file)
{
    struct dynamic d;
    Elf64_Sym symbol;
    char text[8] = ""; /* "3.1.7", "3.1.10" */
    *ret = (struct ruby_binary){0};
    if (!dynamic_open(&d, file) || !dynamic_find(&d, "rb_profile_frames", STT_FUNC, &symbol, NULL) ||
        !dynamic_find(&d, "rb_iseq_eval", STT_FUNC, &symbol, NULL) ||
        !dynamic_find(&d, "ruby_version", STT_OBJECT, &symbol, NULL) || symbol.st_size < 6 ||
        symbol.st_size > sizeof text || !dynamic_read(&d, symbol.st_value, text, symbol.st_size - 1))
        return false;
    for (size_t i = 4; i < sizeof text && text[i] >= '0' && text[i] <= '9'; i++)
        ret->patch = 10 * ret->patch + (uint32_t)(text[i] - '0');
    ret->version = 10 * (uint32_t)(text[0] - '0') + (uint32_t)(text[2] - '0');
    return text[1] == '.' && text[3] == '.' &&
           (ret->version == RUBY_FIRST || (ret->version >= 30 && ret->version <= RUBY_LAST));
}

static bool find_exec(struct ruby_binary *b, const struct dynamic *d)
{
    Elf64_Sym symbol;
    struct code c;
    uint64_t start, end;
    if (dynamic_find(d, "rb_vm_exec", STT_FUNC, &symbol, NULL)) {
        b->exec = symbol.st_value;
        b->exec_size = symbol.st_size;
        return true;
    }
    if (!read_function(&c, d, "rb_iseq_eval"))
        return false;
    for (size_t i = FIND(&c, 0, "\xe9"); i < c.n; i = FIND(&c, i + 1, "\xe9")) {
        uint64_t to = target_at(&c, i + 5);
        if (to - c.address < c.n || !eh_index_bounds(d, to, &start, &end) || start != to)
            continue;
        b->exec = start;
        b->exec_size = end - start;
    }
    return b->exec_size > 0;
}

static void find_core(struct ruby_binary *b, const struct dynamic *d)
{
    struct code c;
    uint64_t start, end;
    uint32_t n = 0;
    if (!read_code(&c, d, b->exec, b->exec_size))
        return;
    for (size_t i = FIND(&c, 0, "\xe8"); i < c.n && n < CALLS_MAX; i = FIND(&c, i + 1, "\xe8")) {
        uint64_t to = target_at(&c, i + 5);
        if (to - b->exec < b->exec_size || to == b->core)
            continue;
        n++;
        if (!eh_index_bounds(d, to, &start, &end) || start != to || end - start <= b->core_size)
            continue;
        b->core = start;
        b->core_size = end - start;
    }
    if (b->core_size < CORE_LEAST)
        b->core = b->core_size = 0;
}

static bool find_context(struct ruby_binary *b, const struct dynamic *d)
{
    Elf64_Sym symbol;
    struct code c;
    size_t i;
    if (b->version < 30) {
        b->access = RUBY_SHARED;
        if (!dynamic_find(d, "ruby_current_execution_context_ptr", STT_OBJECT, &symbol, NULL))
            return false;
        b->at = symbol.st_value;
        return true;
    }
    if (!read_function(&c, d, "rb_profile_frames"))
        return false;
    c.n = min_of(c.n, (size_t)BEGIN_MAX);
    i = FIND(&c, 0, "\x66\x48\x8d\x3d"); /* data16 lea x@tlsgd(%rip), %rdi */
    if (i < c.n) {
        b->access = RUBY_MODULE;
        b->at = target_at(&c, i + 8);
        return true;
    }
    b->access = RUBY_STATIC;
    for (i = FIND(&c, 0, "\x64"); i + 9 <= c.n; i = FIND(&c, i + 1, "\x64")) { /* mov %fs:x, %any */
        const uint8_t *p = c.byte + i;
        if ((p[1] & 0xfb) != 0x48 || p[2] != 0x8b || (p[3] & 0xc7) != 0x04 || p[4] != 0x25)
            continue;
        int32_t offset = number_at(&c, i + 5);
        if (offset == 0 && i + 16 <= c.n && memcmp(p + 9, "\x48\x8d\x80", 3) == 0) /* lea x(%rax), %rax */
            offset = number_at(&c, i + 12);
        b->at = (uint64_t)(int64_t)offset;
        if (offset < 0)
            return true; /* what is above is the C library's: what guards the stack */
    }
    return false;
}

/* cmp %edi, x(%rip); or the other way round. */
static bool compares(const struct code *c, uint64_t *ret)
{
    size_t i = min_of(FIND(c, 0, "\x39\x3d"), FIND(c, 0, "\x3b\x3d"));
    if (i + 6 > c->n)
        return false;
    *ret = target_at(c, i + 6);
    return true;
}

static void find_symbols(struct ruby_binary *b, const struct dynamic *d)
{
    struct code c;
    if (!read_function(&c, d, "rb_id2str") || compares(&c, &b->symbols))
        return;
    size_t i = FIND(&c, 0, "\xe9");
    if (i < c.n && read_code(&c, d, target_at(&c, i + 5), BEGIN_MAX))
        (void)compares(&c, &b->symbols);
}

static void find_collects(struct ruby_binary *b, const struct dynamic *d)
{
    struct code c;
    if (!read_function(&c, d, "rb_during_gc"))
        return;
    /* mov or lea x(%rip), %rax; perhaps mov (%rax), %rax; … mov x(%rax), %rax; movzbl x(%rax), %eax; shr x,
     * %al */
    size_t load = FIND(&c, 0, "\x48\x8b\x05"), lea = FIND(&c, 0, "\x48\x8d\x05"), vm = min_of(load, lea);
    size_t heap = FIND(&c, vm, "\x48\x8b\x80"), byte = FIND(&c, heap, "\x0f\xb6\x40"), bit = byte + 4;
    if (bit + 3 > c.n || c.byte[bit] != 0xc0 || c.byte[bit + 1] != 0xe8 || number_at(&c, heap + 3) < 0)
        return;
    b->vm = target_at(&c, vm + 7);
    b->vm_is_far = load < lea && memcmp(c.byte + vm + 7, "\x48\x8b\x00", 3) == 0;
    b->heap = (uint32_t)number_at(&c, heap + 3);
    b->collects = c.byte[byte + 3];
    b->collects_bit = c.byte[bit + 2];
}

bool ruby_binary_find(struct ruby_binary *ret, const struct source *file)
{
    struct dynamic d;
    if (!ruby_binary_is(ret, file) || !dynamic_open(&d, file) || !find_exec(ret, &d) ||
        !find_context(ret, &d))
        return false;
    find_core(ret, &d);
    find_symbols(ret, &d);
    find_collects(ret, &d);
    return true;
}
