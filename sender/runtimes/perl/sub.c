/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Subroutines and statements of an evaluated text are freed with it, and others may get the memory: so what
 * tells one from others is compared with the word before anything is read by it, and again when all was.
 *
 * Names are those that caller() says, and Carp writes: Package::sub, Package::__ANON__, (eval), require.
 */
#include "sender/runtimes/perl/sub.h"

#include <string.h>

#include "proto/base/macros.h"

/* A hash with a table of symbols has more behind its head (xpvhv_aux), from 5.36 on in its body, before at
 * the end of its array. */
#define SV_HASH        12u
#define SV_TYPE(flags) ((flags)&255)
#define SV_HAS_MORE    0x02000000u
#define HASH_LAST      0x18u
#define HASH_BODY      0x20u

struct sv {
    uint64_t body;
    uint32_t references, flags;
    uint64_t array;
};

struct hash_more {
    uint64_t name; /* or of an array of names, if there are some */
    uint64_t other[2];
    uint32_t number;
    int32_t names;
};

/* A subroutine and a statement, as they were read. */
struct frame {
    uint64_t name, package; /* 0: it has none */
    uint64_t file;          /* 0: it is not known */
    uint32_t line;
};

static bool read_code(const struct source *memory, uint64_t at, uint32_t what, struct frame *f)
{
    uint64_t body, code[PERL_CODE_WORDS], glob[PERL_GLOB_WORDS];
    if (!runtime_load(memory, at, &body))
        return false;
    if (what == PERL_NAMED) {
        if (!source_read(memory, body + PERL_CODE_FROM, code, sizeof code) || !PERL_CODE_IS_NAMED(code))
            return false;
        f->name = code[PERL_CODE_GLOB];
        f->package = code[PERL_CODE_PACKAGE];
        return true;
    }
    if (!source_read(memory, body + PERL_GLOB_FROM, glob, sizeof glob))
        return false;
    f->name = glob[PERL_GLOB_NAME];
    f->package = glob[PERL_GLOB_PACKAGE];
    return true;
}

/* What the step has read last of a statement's file: where its characters are. */
static bool file_text(const struct source *memory, const struct perl_place *place, uint64_t file,
                      uint64_t *ret)
{
    *ret = file;
    if (place->key)
        return true;
    if (!runtime_load(memory, file, ret) || !runtime_load(memory, *ret + PERL_GLOB_FROM, ret))
        return false;
    *ret += PERL_NAME_TEXT + PERL_FILE_PREFIX;
    return true;
}

/* The word's subroutine. False: it is another one that is there. */
static bool read_sub(const struct source *memory, const struct sample_frame *word, struct frame *ret)
{
    uint32_t what = PERL_WHAT(word->extra);
    uint64_t text, hash = 0;
    if (what == PERL_GLOB || what == PERL_NAMED) {
        if (!read_code(memory, PERL_OBJECT(word->where), what, ret) ||
            !runtime_load(memory, ret->name, &text))
            return false;
        hash = PERL_HASH_NAME(ret->name, text, ret->package);
    }
    return ((word->where >> PERL_COOKIE_BITS ^ PERL_COOKIE(hash)) & PERL_COOKIE_MASK) == 0;
}

/* Its statement; none, if it is another one that is there. */
static void read_place(const struct source *memory, const struct perl_place *place,
                       const struct sample_frame *word, struct frame *ret)
{
    uint64_t cop = PERL_COP(word->file, word->extra), file, text, statement[PERL_COP_WORDS];
    ret->file = ret->line = 0;
    if (word->extra & PERL_LINE)
        ret->line = (uint32_t)(cop >> 3);
    if ((word->extra & PERL_LINE) || !cop ||
        !source_read(memory, cop + PERL_COP_FROM, statement, sizeof statement) ||
        !file_text(memory, place, statement[PERL_COP_FILE], &file) || !runtime_load(memory, file, &text))
        return;
    uint32_t line = PERL_COP_LINE(statement);
    uint64_t hash = PERL_HASH_PLACE(statement[PERL_COP_FILE], text, line);
    if ((word->where ^ PERL_COOKIE(hash)) & PERL_COOKIE_MASK)
        return;
    ret->file = file;
    ret->line = line;
}

static bool read_frame(const struct source *memory, const struct perl_place *place,
                       const struct sample_frame *word, struct frame *ret)
{
    *ret = (struct frame){0};
    read_place(memory, place, word, ret);
    return read_sub(memory, word, ret);
}

/* A name, as UTF-8: Perl has names whose characters are bytes as such, or as Latin-1 (use utf8). .n 0: there
 * is none. */
static struct bytes read_name(const struct source *memory, uint64_t at, struct arena *text)
{
    uint8_t raw[PERL_NAME_MAX + 1], wide[2 * PERL_NAME_MAX];
    uint32_t head[2];
    size_t to = 0;
    if (!at || !source_read(memory, at, head, sizeof head) || (int32_t)head[1] <= 0)
        return BYTES_LIT("");
    size_t n = min_of((size_t)head[1], sizeof raw);
    if (!source_read(memory, at + PERL_NAME_TEXT, raw, n))
        return BYTES_LIT("");
    struct bytes name = bytes_cut(bytes_of(raw, n), PERL_NAME_MAX);
    if (bytes_is_utf8(name))
        return arena_copy(text, name);
    for (size_t i = 0; i < name.n; i++)
        to += bytes_put_utf8(wide + to, raw[i]);
    return arena_copy(text, bytes_of(wide, to));
}

/* A package's. */
static struct bytes package_name(const struct source *memory, const struct perl_place *place, uint64_t at,
                                 struct arena *text)
{
    struct sv hash;
    struct hash_more more;
    uint64_t last, behind, name;
    if (!at || !source_read(memory, at, &hash, sizeof hash) || SV_TYPE(hash.flags) != SV_HASH ||
        !(hash.flags & SV_HAS_MORE) || !runtime_load(memory, hash.body + HASH_LAST, &last))
        return BYTES_LIT("");
    behind = place->version[1] >= 36 ? hash.body + HASH_BODY : hash.array + 8 * (last + 1);
    if (!source_read(memory, behind, &more, sizeof more))
        return BYTES_LIT("");
    name = more.name;
    if (more.names &&
        (!runtime_load(memory, more.name, &name) || (!name && !runtime_load(memory, more.name + 8, &name))))
        return BYTES_LIT("");
    return read_name(memory, name, text);
}

/* "Package::sub"; .n 0: it has none. */
static struct bytes full_name(const struct source *memory, const struct perl_place *place,
                              const struct frame *f, struct arena *text)
{
    struct bytes sub = read_name(memory, f->name, text),
                 package = package_name(memory, place, f->package, text);
    if (sub.n == 0)
        return sub;
    if (package.n == 0)
        package = BYTES_LIT("__ANON__"); /* as Perl says of a package that is gone (gv_fullname) */
    const char *both = arena_printf(text, "%.*s::%.*s", (int)package.n, (const char *)package.p, (int)sub.n,
                                    (const char *)sub.p);
    return both ? bytes_str(both) : BYTES_LIT("");
}

static struct bytes file_name(const struct source *memory, uint64_t at, struct arena *text)
{
    char name[PERL_NAME_MAX];
    return at ? arena_copy(text, bytes_of(name, source_string(memory, at, name, sizeof name)))
              : BYTES_LIT("");
}

bool perl_sub_name(const struct source *memory, const struct perl_place *place,
                   const struct sample_frame *word, struct arena *text, struct runtime_name *ret)
{
    static const char *const names[] = {[PERL_UNNAMED] = "__ANON__",
                                        [PERL_EVAL] = "(eval)",
                                        [PERL_REQUIRE] = "require",
                                        [PERL_MAIN] = "<main>"};
    uint32_t what = PERL_WHAT(word->extra);
    struct frame f;
    if (what >= sizeof names / sizeof *names)
        return false;
    bool is_it = read_frame(memory, place, word, &f);
    if (!is_it && !f.file)
        return false;
    if (!is_it)
        what = PERL_UNNAMED; /* its name has gone, but not where it is */
    struct runtime_name is = {.line = f.line};
    is.name = names[what] ? bytes_str(names[what]) : full_name(memory, place, &f, text);
    is.file = word->extra & PERL_LINE ? BYTES_LIT("(eval)") : file_name(memory, f.file, text);
    uint64_t file = f.file;
    if (is.name.n == 0 || !is.file.p || read_frame(memory, place, word, &f) != is_it ||
        (!is_it && f.file != file))
        return false;
    if (f.file != file) { /* it has gone meanwhile */
        is.file = BYTES_LIT("");
        is.line = 0;
    }
    *ret = is;
    return true;
}
