/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An iseq is freed with its method, and another one may get its memory: so what tells it from others is
 * compared with the word before anything is read by it, and again when all was.
 *
 * Its label is "method", "block in method", "<class:Name>", "<main>" and the like; where it belongs to a
 * method, that ends with the method's name, before which its class is put: "block in Name#method".
 */
#include "sender/runtimes/ruby/method.h"

#include <string.h>

#include "proto/base/macros.h"
#include "sender/runtimes/ruby/lines.h"
#include "sender/runtimes/ruby/object.h"

/* rb_iseq_constant_body: type and size; then, at 8, the code; at 64 the location (rb_iseq_location_t): path,
 * base label, label, first line. */
#define BODY_SIZE        4u
#define BODY_LOCATION    64u
#define BODY_TYPE_METHOD 1u
enum { LOCATION_PATH, LOCATION_BASE, LOCATION_LABEL, LOCATION_LINE, LOCATION_WORDS };

/* rb_method_definition_struct: its kind in four bits; its iseq, or what it calls in C; its name. */
#define METHOD_KIND(word) ((word)[0] & 15)
#define METHOD_IS_ISEQ    0u
#define METHOD_IS_C       1u
#define METHOD_ISEQ       1u
#define METHOD_NAME       4u
#define METHOD_WORDS      5u

static bool read_words(const struct source *memory, uint64_t at, uint64_t *ret, size_t n)
{
    return source_read(memory, at, ret, n * sizeof *ret);
}

static uint64_t entry_of(const struct sample_frame *word)
{
    return word->file ? RUBY_OBJECT(word->where) + 8 * (uint64_t)(int64_t)(int32_t)word->file : 0;
}

/* Whether it is the word's iseq that is there, and the entry of its method. */
static bool is_iseq(const struct source *memory, const struct sample_frame *word, uint64_t *body,
                    uint64_t entry[RUBY_ENTRY_WORDS])
{
    uint64_t iseq = RUBY_OBJECT(word->where), flags, read[RUBY_BODY_WORDS];
    entry[RUBY_ENTRY_METHOD] = 0;
    if (word->file && !read_words(memory, entry_of(word), entry, RUBY_ENTRY_WORDS))
        return false;
    return read_words(memory, iseq, &flags, 1) && RUBY_IMEMO(flags) == RUBY_IMEMO_ISEQ &&
           read_words(memory, iseq + RUBY_ISEQ_BODY, body, 1) &&
           read_words(memory, *body + RUBY_BODY_FROM, read, RUBY_BODY_WORDS) &&
           RUBY_WHERE(iseq, RUBY_HASH_ISEQ(*body, read[RUBY_BODY_CODE], read[RUBY_BODY_LABEL],
                                           entry[RUBY_ENTRY_METHOD])) == word->where;
}

/* Whether it is the word's entry, of a method written in C, that is there. */
static bool is_entry(const struct source *memory, const struct sample_frame *word,
                     uint64_t entry[RUBY_ENTRY_WORDS])
{
    uint64_t at = RUBY_OBJECT(word->where);
    return read_words(memory, at, entry, RUBY_ENTRY_WORDS) &&
           RUBY_IMEMO(entry[RUBY_ENTRY_FLAGS]) == RUBY_IMEMO_ENTRY &&
           RUBY_WHERE(at, RUBY_HASH_ENTRY(entry)) == word->where;
}

/* "Name#method", "Name.method", or what there is of it. */
static struct bytes qualified(const struct ruby_reader *r, struct bytes prefix, uint64_t owner,
                              struct bytes method)
{
    bool is_own;
    struct bytes class = ruby_class(r, owner, &is_own);
    char *whole = arena_printf(r->text, "%.*s%.*s%s%.*s", (int)prefix.n, prefix.p, (int)class.n,
                               class.n ? (const char *)class.p : "",
                               !class.n ? ""
                               : is_own ? "."
                                        : "#",
                               (int)method.n, method.p);
    return whole ? bytes_str(whole) : bytes_of(NULL, 0);
}

/* Whether an entry is that of the method which an iseq, that has `body`, belongs to. */
static bool is_method_of(const struct ruby_reader *r, const uint64_t entry[RUBY_ENTRY_WORDS], uint64_t body)
{
    uint64_t method[METHOD_WORDS], local, local_body;
    uint32_t type;
    return entry[RUBY_ENTRY_METHOD] &&
           read_words(r->memory, entry[RUBY_ENTRY_METHOD], method, METHOD_WORDS) &&
           METHOD_KIND(method) == METHOD_IS_ISEQ &&
           read_words(r->memory, body + r->place->local, &local, 1) && method[METHOD_ISEQ] == local &&
           read_words(r->memory, local + RUBY_ISEQ_BODY, &local_body, 1) &&
           source_read(r->memory, local_body, &type, sizeof type) && type == BODY_TYPE_METHOD;
}

static uint32_t line_of(const struct ruby_reader *r, uint64_t body, uint64_t first, uint32_t at)
{
    struct ruby_lines lines;
    /* What is saved is the next instruction, but before the first one. Generated code saves it when it calls:
     * before, it may be one of what had the frame before. */
    uint32_t line = 0, n = 0;
    if (at != RUBY_NO_INSTRUCTION && source_read(r->memory, body + BODY_SIZE, &n, sizeof n) && at <= n &&
        source_read(r->memory, body + r->place->lines, &lines, sizeof lines))
        line = ruby_line(r->memory, &lines, r->place->line_size, at ? at - 1 : 0);
    return line ? line : (uint32_t)(r->place->is_first_value ? first >> 1 : first & INT32_MAX);
}

static bool name_iseq(const struct ruby_reader *r, const struct sample_frame *word, uint64_t body,
                      uint64_t entry[RUBY_ENTRY_WORDS], struct runtime_name *ret)
{
    uint64_t location[LOCATION_WORDS];
    if (!read_words(r->memory, body + BODY_LOCATION, location, LOCATION_WORDS))
        return false;
    struct bytes label = ruby_string(r, location[LOCATION_LABEL]),
                 base = ruby_string(r, location[LOCATION_BASE]);
    if (!label.n)
        return false;
    *ret =
        (struct runtime_name){.name = label, .line = line_of(r, body, location[LOCATION_LINE], word->extra)};
    bool ends = base.n && base.n <= label.n && memcmp(label.p + label.n - base.n, base.p, base.n) == 0;
    if (ends && is_method_of(r, entry, body))
        ret->name = qualified(r, bytes_of(label.p, label.n - base.n), entry[RUBY_ENTRY_OWNER], base);
    /* Its name as it was asked for, and where that is; which eval has not. */
    ret->file = ruby_string(r, ruby_element(r, location[LOCATION_PATH], 1));
    if (!ret->file.n)
        ret->file = ruby_string(r, ruby_element(r, location[LOCATION_PATH], 0));
    return is_iseq(r->memory, word, &body, entry);
}

static bool name_entry(const struct ruby_reader *r, const struct sample_frame *word,
                       uint64_t entry[RUBY_ENTRY_WORDS], struct runtime_name *ret)
{
    uint64_t method[METHOD_WORDS];
    if (!read_words(r->memory, entry[RUBY_ENTRY_METHOD], method, METHOD_WORDS) ||
        METHOD_KIND(method) != METHOD_IS_C)
        return false;
    struct bytes name = ruby_symbol(r, method[METHOD_NAME]);
    if (!name.n)
        return false;
    *ret = (struct runtime_name){.name = qualified(r, bytes_of("", 0), entry[RUBY_ENTRY_OWNER], name)};
    return is_entry(r->memory, word, entry);
}

bool ruby_method_name(const struct source *memory, const struct ruby_place *place,
                      const struct sample_frame *word, struct arena *text, struct runtime_name *ret)
{
    struct ruby_reader r = {.memory = memory, .place = place, .text = text};
    uint64_t body, entry[RUBY_ENTRY_WORDS];
    struct runtime_name is = {0};
    bool found = true;
    if (word->where == RUBY_COLLECTOR)
        is.name = BYTES_LIT("(garbage collection)");
    else if (is_iseq(memory, word, &body, entry))
        found = name_iseq(&r, word, body, entry, &is);
    else
        found = is_entry(memory, word, entry) && name_entry(&r, word, entry, &is);
    if (!found || !is.name.n)
        return false;
    if (!is.file.n)
        is.file = BYTES_LIT("");
    *ret = is;
    return true;
}
