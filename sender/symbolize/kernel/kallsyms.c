/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/symbolize/kernel/kallsyms.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "proto/base/macros.h"

#define CHUNK       (64u * 1024)
#define MODULES_MAX 4096u       /* a distribution kernel loads some 200 of them */
#define NAMES_MAX   (64u << 20) /* of all names; 200,000 take 5 MB */
#define FAR         (1u << 20)  /* no kernel function is longer */

struct symbol {
    uint64_t address;
    uint32_t name;   /* offset in names */
    uint32_t module; /* 0: the kernel itself */
};

struct module {
    char name[64]; /* MODULE_NAME_LEN is 56 */
    uint64_t base;
};

struct kallsyms {
    struct symbol *symbol; /* ascending */
    uint32_t n, cap;
    char *names;
    size_t names_n, names_cap;
    struct module *module;
    uint32_t n_modules, last_module;
    uint64_t text;
    bool saw_any;
};

/* One blank-separated word at the front of *s. */
static struct bytes word(struct bytes *s)
{
    size_t from = 0;
    while (from < s->n && (s->p[from] == ' ' || s->p[from] == '\t'))
        from++;
    size_t to = from;
    while (to < s->n && s->p[to] != ' ' && s->p[to] != '\t')
        to++;
    struct bytes w = bytes_of(s->p + from, to - from);
    *s = bytes_of(s->p + to, s->n - to);
    return w;
}

static bool hex(struct bytes w, uint64_t *ret)
{
    uint64_t value = 0;
    if (w.n == 0 || w.n > 16)
        return false;
    for (size_t i = 0; i < w.n; i++) {
        uint8_t c = w.p[i];
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
            return false;
        value = value << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    *ret = value;
    return true;
}

/* The number of a module, added if new. Modules come one after the other in the text. */
static int module_number(struct kallsyms *k, struct bytes name, uint64_t address)
{
    if (name.n < 3 || name.p[0] != '[' || name.p[name.n - 1] != ']')
        return 0;
    name = bytes_of(name.p + 1, min_of(name.n - 2, sizeof k->module->name - 1));
    for (uint32_t tried = 0, i = k->last_module; tried < k->n_modules; tried++, i = (i + 1) % k->n_modules) {
        if (bytes_is(name, k->module[i].name)) {
            k->last_module = i;
            k->module[i].base = min_of(k->module[i].base, address);
            return (int)i + 1;
        }
    }
    if (k->n_modules == MODULES_MAX)
        return 0;
    struct module *more = realloc(k->module, (k->n_modules + 1) * sizeof *more);
    if (!more)
        return -ENOMEM;
    k->module = more;
    struct module *m = &k->module[k->n_modules];
    memcpy(m->name, name.p, name.n);
    m->name[name.n] = 0;
    m->base = address;
    k->last_module = k->n_modules++;
    return (int)k->n_modules;
}

static int add(struct kallsyms *k, uint64_t address, struct bytes name, uint32_t module)
{
    if (k->n == KALLSYMS_MAX || k->names_n + name.n + 1 > NAMES_MAX)
        return 0;
    if (k->n == k->cap) {
        uint32_t cap = k->cap ? k->cap + k->cap / 2 : 16384;
        struct symbol *more = realloc(k->symbol, cap * sizeof *more);
        if (!more)
            return -ENOMEM;
        k->symbol = more;
        k->cap = cap;
    }
    if (k->names_n + name.n + 1 > k->names_cap) {
        size_t cap = max_of(k->names_cap + k->names_cap / 2, (size_t)CHUNK);
        char *more = realloc(k->names, max_of(cap, k->names_n + name.n + 1));
        if (!more)
            return -ENOMEM;
        k->names = more;
        k->names_cap = max_of(cap, k->names_n + name.n + 1);
    }
    k->symbol[k->n++] = (struct symbol){.address = address, .name = (uint32_t)k->names_n, .module = module};
    memcpy(k->names + k->names_n, name.p, name.n);
    k->names[k->names_n + name.n] = 0;
    k->names_n += name.n + 1;
    return 0;
}

/* The bytes before a function that call thunks may patch have a name of their own (CONFIG_PREFIX_SYMBOLS,
 * Linux 6.2): as many names again, of what never runs. */
static bool is_padding(struct bytes name)
{
    return name.n > 6 && memcmp(name.p, "__pfx_", 6) == 0;
}

static int take(struct kallsyms *k, struct bytes line)
{
    uint64_t address;
    struct bytes where = word(&line), type = word(&line), name = word(&line), module = word(&line);
    if (!hex(where, &address) || type.n != 1 || name.n == 0)
        return 0;
    k->saw_any = true;
    if (address == 0)
        return 0; /* hidden, or a per-CPU offset */
    if (bytes_is(name, "_text") || (bytes_is(name, "_stext") && !k->text))
        k->text = address;
    if (!memchr("tTwW", type.p[0], 4) || is_padding(name))
        return 0;
    int number = module_number(k, module, address);
    return number < 0 ? number : add(k, address, name, (uint32_t)number);
}

static int by_address(const void *a, const void *b)
{
    const struct symbol *x = a, *y = b;
    return x->address < y->address ? -1 : x->address > y->address;
}

/* Sorts; gives back what growing left over; and of several names at one address keeps the first that was
 * printed, but not a mark such as _text or _stext where there is a function. */
static void settle(struct kallsyms *k)
{
    qsort(k->symbol, k->n, sizeof *k->symbol, by_address);
    uint32_t n = 0;
    for (uint32_t i = 0; i < k->n; i++) {
        if (n > 0 && k->symbol[n - 1].address == k->symbol[i].address) {
            const char *kept = k->names + k->symbol[n - 1].name;
            bool is_mark = strcmp(kept, "_text") == 0 || strcmp(kept, "_stext") == 0;
            if (is_mark || k->symbol[i].name < k->symbol[n - 1].name) {
                const char *other = k->names + k->symbol[i].name;
                if (strcmp(other, "_text") != 0 && strcmp(other, "_stext") != 0)
                    k->symbol[n - 1] = k->symbol[i];
            }
            continue;
        }
        k->symbol[n++] = k->symbol[i];
    }
    k->n = n;
    struct symbol *symbol = realloc(k->symbol, n * sizeof *symbol);
    k->symbol = symbol ? symbol : k->symbol;
    k->cap = n;
    char *names = realloc(k->names, k->names_n);
    k->names = names ? names : k->names;
    k->names_cap = k->names_n;
}

static int read_lines(struct kallsyms *k, int fd)
{
    autofree uint8_t *text = malloc(CHUNK);
    if (!text)
        return -ENOMEM;
    size_t filled = 0;
    for (;;) {
        ssize_t got = read(fd, text + filled, CHUNK - filled);
        if (got < 0)
            return -errno;
        if (got == 0)
            return 0;
        filled += (size_t)got;
        size_t done = 0;
        for (uint8_t *end; (end = memchr(text + done, '\n', filled - done));
             done = (size_t)(end - text) + 1) {
            int r = take(k, bytes_of(text + done, (size_t)(end - text) - done));
            if (r < 0)
                return r;
        }
        if (done == 0 && filled == CHUNK)
            return -EBADMSG; /* no line of it is that long */
        memmove(text, text + done, filled - done);
        filled -= done;
    }
}

int kallsyms_read(struct kallsyms **ret, int fd)
{
    struct kallsyms *k = calloc(1, sizeof *k);
    if (!k)
        return -ENOMEM;
    int r = read_lines(k, fd);
    if (r == 0 && k->n == 0)
        r = k->saw_any ? KALLSYMS_HIDDEN : -ENOENT;
    if (r != 0) {
        kallsyms_free(k);
        return r;
    }
    settle(k);
    *ret = k;
    return 0;
}

struct kallsyms *kallsyms_free(struct kallsyms *k)
{
    if (k) {
        free(k->symbol);
        free(k->names);
        free(k->module);
        free(k);
    }
    return NULL;
}

bool kallsyms_find(const struct kallsyms *k, uint64_t address, struct kallsyms_name *ret)
{
    uint32_t from = first_where(k->n, i, k->symbol[i].address > address);
    if (from == 0 || address - k->symbol[from - 1].address > FAR)
        return false;
    const struct symbol *s = &k->symbol[from - 1];
    const struct module *m = s->module ? &k->module[s->module - 1] : NULL;
    *ret = (struct kallsyms_name){
        .name = bytes_str(k->names + s->name),
        .module = m ? bytes_str(m->name) : BYTES_LIT("vmlinux"),
        .base = m ? m->base : k->text,
    };
    return true;
}

uint32_t kallsyms_count(const struct kallsyms *k)
{
    return k->n;
}

size_t kallsyms_memory(const struct kallsyms *k)
{
    return k->cap * sizeof *k->symbol + k->names_cap + k->n_modules * sizeof *k->module;
}
