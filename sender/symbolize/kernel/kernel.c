/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/symbolize/kernel/kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "proto/base/macros.h"
#include "proto/base/vec.h"

/* Of /proc/kallsyms, up to _text: before that there are some hundred names of other things, in some kernels.
 * Of /proc/modules, all. */
#define TEXT_MAX  (256u << 10)
#define TEXT_PART 4096u
/* Of functions, of modules. */
#define NAMES_MAX (4u << 20)
#define WANTS_MAX 65536u /* at a time */

#define VMLINUX 0u /* number of module */
#define PROGRAM 1u

struct function {
    uint64_t start, end;
    uint32_t name, name_n; /* in names */
    uint32_t module;
};

struct module {
    char name[64];  /* MODULE_NAME_LEN is 56 */
    uint64_t start; /* 0: hidden */
};

struct kernel {
    struct kernel_options options;
    VEC(struct function) functions; /* ascending, apart from one another */
    VEC(char) names;
    VEC(struct module) modules;
    VEC(uint64_t) wants;
    uint32_t n_next;
    bool knows_start; /* the kernel's was looked for */
};

static bool take_line(struct bytes *text, struct bytes *ret)
{
    const uint8_t *end = text->n ? memchr(text->p, '\n', text->n) : NULL;
    if (!end)
        return false;
    *ret = bytes_of(text->p, (size_t)(end - text->p));
    *text = bytes_from(*text, ret->n + 1);
    return true;
}

/* What of a line of /proc/kallsyms, or /proc/modules, is an address of `name`'s; 0: nothing, or it is hidden.
 */
static uint64_t start_in_symbols(struct bytes line, struct bytes name)
{
    uint64_t address;
    struct bytes first = bytes_word(&line);
    (void)bytes_word(&line); /* its type */
    return bytes_eq(bytes_word(&line), name) && bytes_hex(first, &address) ? address : 0;
}

static uint64_t start_in_modules(struct bytes line, struct bytes name)
{
    uint64_t address;
    if (!bytes_eq(bytes_word(&line), name))
        return 0;
    for (int i = 0; i < 4; i++) /* size, references, by whom, state */
        (void)bytes_word(&line);
    struct bytes at = bytes_word(&line);
    return bytes_starts(at, "0x") && bytes_hex(bytes_from(at, 2), &address) ? address : 0;
}

/* Where the kernel, or a module, begins. 0: it is not said. */
static uint64_t find_start(const struct kernel *k, const char *file, struct bytes name,
                           uint64_t (*start)(struct bytes line, struct bytes name))
{
    char path[256];
    cleanup(buffer_release) struct buffer text = BUFFER_INIT(TEXT_MAX);
    snprintf(path, sizeof path, "%s/%s", k->options.proc_root, file);
    autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t done = 0;
    for (;;) {
        uint8_t *to = fd < 0 ? NULL : buffer_cursor(&text, TEXT_PART);
        ssize_t got = to ? read(fd, to, TEXT_PART) : 0;
        if (got <= 0)
            return 0;
        text.n += (size_t)got;
        struct bytes left = bytes_from(buffer_bytes(&text), done), line;
        while (take_line(&left, &line)) {
            uint64_t found = start(line, name);
            if (found)
                return found;
        }
        done = text.n - left.n;
    }
}

struct kernel *kernel_new(const struct kernel_options *options)
{
    struct kernel *k = calloc(1, sizeof *k);
    if (!k || vec_append(&k->modules, (struct module){.name = "vmlinux"}) < 0 ||
        vec_append(&k->modules, (struct module){.name = "bpf"}) < 0)
        return kernel_free(k);
    k->options = *options;
    return k;
}

struct kernel *kernel_free(struct kernel *k)
{
    if (!k)
        return NULL;
    vec_release(&k->functions);
    vec_release(&k->names);
    vec_release(&k->modules);
    vec_release(&k->wants);
    free(k);
    return NULL;
}

/* The number of the first function that begins behind an address. */
static uint32_t behind(const struct kernel *k, uint64_t address)
{
    return first_where(k->functions.n, i, k->functions.p[i].start > address);
}

static const struct function *function_at(const struct kernel *k, uint64_t address)
{
    uint32_t i = behind(k, address);
    return i > 0 && address < k->functions.p[i - 1].end ? &k->functions.p[i - 1] : NULL;
}

void kernel_want(struct kernel *k, uint64_t address)
{
    if (k->wants.n < WANTS_MAX && !function_at(k, address))
        (void)vec_append(&k->wants, address);
}

/* Whether a function of no module is a BPF program, or one of the kernel's ways to one. */
static bool is_program(struct bytes name)
{
    uint64_t tag;
    return (bytes_starts(name, "bpf_prog_") && name.n >= 25 && bytes_hex(bytes_of(name.p + 9, 16), &tag)) ||
           (bytes_starts(name, "bpf_trampoline_") && name.n > 15 && name.p[15] >= '0' && name.p[15] <= '9');
}

/* The number of a module whose name is in brackets, added if it is new; or -ENOMEM. */
static int module_number(struct kernel *k, struct bytes brackets)
{
    struct module fresh = {0};
    struct bytes name = bytes_of(brackets.p + 1, min_of(brackets.n - 2, sizeof fresh.name - 1));
    for (uint32_t i = 0; i < k->modules.n; i++)
        if (bytes_is(name, k->modules.p[i].name))
            return (int)i;
    memcpy(fresh.name, name.p, name.n);
    fresh.start = find_start(k, "modules", name, start_in_modules);
    int r = vec_append(&k->modules, fresh);
    return r < 0 ? r : (int)k->modules.n - 1;
}

/* Keeps a function, unless one is known that has some of it. */
static int add(struct kernel *k, uint64_t start, uint64_t end, struct bytes name, uint32_t module)
{
    struct function *f = k->functions.p;
    uint32_t at = behind(k, start), n = k->functions.n;
    if ((at > 0 && f[at - 1].end > start) || (at < n && f[at].start < end) || k->names.n + name.n > NAMES_MAX)
        return 0;
    struct function fresh = {
        .start = start, .end = end, .name = k->names.n, .name_n = (uint32_t)name.n, .module = module};
    int r = vec_append_all(&k->names, (const char *)name.p, (uint32_t)name.n);
    r = r < 0 ? r : vec_append(&k->functions, fresh);
    if (r < 0)
        return r;
    f = k->functions.p;
    memmove(f + at + 1, f + at, (n - at) * sizeof *f);
    f[at] = fresh;
    return 0;
}

/* The number behind "0x" at the front of *s, which ends at a slash or with it. */
static bool take_number(struct bytes *s, uint64_t *ret)
{
    const uint8_t *slash = s->n ? memchr(s->p, '/', s->n) : NULL;
    size_t n = slash ? (size_t)(slash - s->p) : s->n;
    bool is_one = bytes_starts(*s, "0x") && bytes_hex(bytes_of(s->p + 2, n - 2), ret);
    *s = bytes_from(*s, slash ? n + 1 : n);
    return is_one;
}

/* "ADDRESS NAME+0xOFFSET/0xSIZE [MODULE]", the offset of the byte behind the address. */
static int take(struct kernel *k, struct bytes line)
{
    uint64_t address, offset, size;
    struct bytes first = bytes_word(&line), function = bytes_word(&line), module = bytes_word(&line);
    const uint8_t *plus = function.n ? memrchr(function.p, '+', function.n) : NULL;
    if (!plus)
        return 0; /* it is in none */
    struct bytes name = bytes_of(function.p, (size_t)(plus - function.p));
    struct bytes where = bytes_from(function, name.n + 1);
    if (!bytes_hex(first, &address) || !take_number(&where, &offset) || !take_number(&where, &size) ||
        offset == 0 || offset > size || offset - 1 > address || size > UINT64_MAX - address)
        return 0;
    uint64_t start = address - (offset - 1);
    int number = module.n >= 3 ? module_number(k, module) : is_program(name) ? (int)PROGRAM : (int)VMLINUX;
    return number < 0 ? number : add(k, start, start + size, name, (uint32_t)number);
}

int kernel_resolve(struct kernel *k)
{
    cleanup(buffer_release) struct buffer text = {0};
    if (k->wants.n == 0)
        return 0;
    if (!k->knows_start)
        k->modules.p[VMLINUX].start = find_start(k, "kallsyms", BYTES_LIT("_text"), start_in_symbols);
    k->knows_start = true;
    int r = k->options.ask(k->options.user, k->wants.p, k->wants.n, &text);
    struct bytes left = buffer_bytes(&text), line;
    while (r == 0 && take_line(&left, &line))
        r = take(k, line);
    vec_clear(&k->wants);
    return r;
}

bool kernel_find(const struct kernel *k, uint64_t address, struct kernel_name *ret)
{
    const struct function *f = function_at(k, address);
    if (!f)
        return false;
    const struct module *m = &k->modules.p[f->module];
    uint64_t start = f->module == PROGRAM ? f->start : m->start;
    *ret = (struct kernel_name){.name = bytes_of(k->names.p + f->name, f->name_n),
                                .module = bytes_str(m->name),
                                .address = start && start <= address ? address - start : 0};
    return true;
}

void kernel_next(struct kernel *k)
{
    if (++k->n_next < KERNEL_NEXT_MAX && k->functions.n < KERNEL_FUNCTIONS_MAX)
        return;
    k->n_next = 0;
    vec_clear(&k->functions);
    vec_clear(&k->names);
    k->modules.n = PROGRAM + 1;
}

size_t kernel_memory(const struct kernel *k)
{
    return k->functions.room * sizeof *k->functions.p + k->names.room +
           k->modules.room * sizeof *k->modules.p + k->wants.room * sizeof *k->wants.p;
}
