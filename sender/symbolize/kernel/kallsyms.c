/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/symbolize/kernel/kallsyms.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "proto/base/macros.h"
#include "proto/base/vec.h"

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
    VEC(struct symbol) symbols; /* ascending */
    VEC(char) names;            /* '\0'-terminated, one after the other */
    VEC(struct module) modules;
    uint32_t last_module;
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

/* The number of a module, added if new. Modules come one after the other in the text. */
static int module_number(struct kallsyms *k, struct bytes name, uint64_t address)
{
    if (name.n < 3 || name.p[0] != '[' || name.p[name.n - 1] != ']')
        return 0;
    struct module fresh = {.base = address};
    name = bytes_of(name.p + 1, min_of(name.n - 2, sizeof fresh.name - 1));
    uint32_t n = k->modules.n;
    for (uint32_t tried = 0, i = k->last_module; tried < n; tried++, i = (i + 1) % n) {
        struct module *m = &k->modules.p[i];
        if (bytes_is(name, m->name)) {
            k->last_module = i;
            m->base = min_of(m->base, address);
            return (int)i + 1;
        }
    }
    if (n == MODULES_MAX)
        return 0;
    memcpy(fresh.name, name.p, name.n);
    k->last_module = n;
    int r = vec_append(&k->modules, fresh);
    return r < 0 ? r : (int)n + 1;
}

static int add(struct kallsyms *k, uint64_t address, struct bytes name, uint32_t module)
{
    if (k->symbols.n == KALLSYMS_MAX || k->names.n + name.n + 1 > NAMES_MAX)
        return 0;
    struct symbol s = {.address = address, .name = k->names.n, .module = module};
    int r = vec_append_all(&k->names, (const char *)name.p, (uint32_t)name.n);
    r = r < 0 ? r : vec_append(&k->names, 0);
    return r < 0 ? r : vec_append(&k->symbols, s);
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
    if (!bytes_hex(where, &address) || type.n != 1 || name.n == 0)
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

/* A name for where the kernel's text begins, which a function may begin at as well. */
static bool is_mark(const struct kallsyms *k, const struct symbol *s)
{
    const char *name = k->names.p + s->name;
    return strcmp(name, "_text") == 0 || strcmp(name, "_stext") == 0;
}

/* Sorts; gives back what growing left over; and of several names at one address keeps the first that was
 * printed, but not a mark such as _text or _stext where there is a function. */
static void settle(struct kallsyms *k)
{
    struct symbol *symbol = k->symbols.p;
    qsort(symbol, k->symbols.n, sizeof *symbol, by_address);
    uint32_t n = 0;
    for (uint32_t i = 0; i < k->symbols.n; i++) {
        if (n > 0 && symbol[n - 1].address == symbol[i].address) {
            if ((is_mark(k, &symbol[n - 1]) || symbol[i].name < symbol[n - 1].name) &&
                !is_mark(k, &symbol[i]))
                symbol[n - 1] = symbol[i];
            continue;
        }
        symbol[n++] = symbol[i];
    }
    k->symbols.n = n;
    vec_fit(&k->symbols);
    vec_fit(&k->names);
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
    if (r == 0 && k->symbols.n == 0)
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
        vec_release(&k->symbols);
        vec_release(&k->names);
        vec_release(&k->modules);
        free(k);
    }
    return NULL;
}

bool kallsyms_find(const struct kallsyms *k, uint64_t address, struct kallsyms_name *ret)
{
    const struct symbol *symbol = k->symbols.p;
    uint32_t from = first_where(k->symbols.n, i, symbol[i].address > address);
    if (from == 0 || address - symbol[from - 1].address > FAR)
        return false;
    const struct symbol *s = &symbol[from - 1];
    const struct module *m = s->module ? &k->modules.p[s->module - 1] : NULL;
    *ret = (struct kallsyms_name){
        .name = bytes_str(k->names.p + s->name),
        .module = m ? bytes_str(m->name) : BYTES_LIT("vmlinux"),
        .base = m ? m->base : k->text,
    };
    return true;
}

size_t kallsyms_memory(const struct kallsyms *k)
{
    return k->symbols.room * sizeof *k->symbols.p + k->names.room + k->modules.room * sizeof *k->modules.p;
}
