/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/runtimes/ruby/object.h"

#include <string.h>

#include "proto/base/macros.h"

/* include/ruby/internal/value_type.h: an object begins with its flags, of which these are its type; then its
 * class. */
#define TYPE(flags)   ((flags)&0x1f)
#define TYPE_CLASS    0x02u
#define TYPE_MODULE   0x03u
#define TYPE_STRING   0x05u
#define TYPE_ARRAY    0x07u
#define FLAG(n)       (1ull << (12 + (n))) /* FL_USERn */
#define IS_SINGLETON  FLAG(0)
#define STRING_IS_FAR FLAG(1)
#define ARRAY_IS_NEAR FLAG(1)

static bool read_word(const struct ruby_reader *r, uint64_t at, uint64_t *ret)
{
    return source_read(r->memory, at, ret, sizeof *ret);
}

/* Objects are not numbers, nil and the like, which have bits below the 8 set, or are small. */
static bool is_object(uint64_t value)
{
    return value > 0xff && !(value & 7);
}

/* A string's bytes may be of any encoding, and none. */
static struct bytes keep_utf8(struct arena *text, struct bytes raw)
{
    uint8_t utf8[3 * RUBY_NAME_MAX];
    size_t n = 0;
    if (bytes_is_utf8(raw))
        return arena_copy(text, raw);
    while (raw.n > 0) {
        size_t one = bytes_utf8_length(raw);
        if (one)
            memcpy(utf8 + n, raw.p, one);
        else
            memcpy(utf8 + n, BYTES_REPLACEMENT, 3);
        n += one ? one : 3;
        raw = bytes_from(raw, one ? one : 1);
    }
    return arena_copy(text, bytes_of(utf8, n));
}

/* Strings (RString): flags, class; then length and a pointer; or the characters themselves, whose length is,
 * up to 3.1, in the flags. */
struct bytes ruby_string(const struct ruby_reader *r, uint64_t object)
{
    uint64_t head[4];
    uint8_t raw[RUBY_NAME_MAX];
    if (!is_object(object) || !source_read(r->memory, object, head, sizeof head) ||
        TYPE(head[0]) != TYPE_STRING)
        return bytes_of(NULL, 0);
    bool is_far = head[0] & STRING_IS_FAR;
    uint64_t length = is_far || r->place->has_length ? head[2] : head[0] >> 14 & 0x1f;
    uint64_t at = is_far ? head[3] : object + 16 + 8 * (r->place->has_length != 0);
    size_t n = (size_t)min_of(length, (uint64_t)sizeof raw);
    if (!source_read(r->memory, at, raw, n))
        return bytes_of(NULL, 0);
    return keep_utf8(r->text, bytes_of(raw, n));
}

/* Arrays (RArray): flags, class; then length, capacity and a pointer; or elements themselves. */
uint64_t ruby_element(const struct ruby_reader *r, uint64_t object, uint32_t i)
{
    uint64_t head[5], element = 0;
    if (!is_object(object) || !source_read(r->memory, object, head, sizeof head))
        return 0;
    if (TYPE(head[0]) != TYPE_ARRAY)
        return object;
    if (head[0] & ARRAY_IS_NEAR)
        return i < 3 ? head[2 + i] : 0;
    return i < head[2] && read_word(r, head[4] + 8 * (uint64_t)i, &element) ? element : 0;
}

/* rb_symbols_t (symbol.c): the last number, a table, and an array of arrays of 512 pairs of string and
 * symbol. A number is the ID, but above the operators it is that less 4 bits, which say what kind of name it
 * is. */
#define OPERATORS_LAST 169u /* tLAST_OP_ID, 168 up to 2.7; both are numbers of operators */
#define SYMBOLS_AT     16u
#define SYMBOLS_A_PART 512u

struct bytes ruby_symbol(const struct ruby_reader *r, uint64_t id)
{
    uint64_t number = id > OPERATORS_LAST ? id >> 4 : id, parts, part;
    uint64_t head[5], string;
    if (!r->place->symbols || number > UINT32_MAX || !read_word(r, r->place->symbols + SYMBOLS_AT, &parts) ||
        !is_object(parts) || !source_read(r->memory, parts, head, sizeof head) || TYPE(head[0]) != TYPE_ARRAY)
        return bytes_of(NULL, 0);
    uint64_t at = number / SYMBOLS_A_PART, base = head[0] & ARRAY_IS_NEAR ? parts + 16 : head[4];
    if (!read_word(r, base + 8 * at, &part) || !is_object(part) ||
        !source_read(r->memory, part, head, sizeof head) || TYPE(head[0]) != TYPE_ARRAY)
        return bytes_of(NULL, 0);
    base = head[0] & ARRAY_IS_NEAR ? part + 16 : head[4];
    if (!read_word(r, base + 16 * (number % SYMBOLS_A_PART), &string))
        return bytes_of(NULL, 0);
    return ruby_string(r, string);
}

/* Classes (RClass): flags, class, superclass; then */
#define CLASS_EXTENSION 24u  /* up to 3.1: a pointer to what has … */
#define EXTENSION_TABLE 8u   /* … a pointer to its variables; */
#define CLASS_VALUES    32u  /* 3.2: a pointer to their values */
#define CLASS_ATTACHED  128u /* from 3.3 on: what a singleton class is the class of, … */
#define CLASS_PATH      152u /* … and the name */

/* A hash table (st.h): entries from `first` to `bound`, of which some are deleted. */
struct table {
    uint8_t powers[8];
    uint64_t type, n, bins, first, bound, entries;
};
struct entry {
    uint64_t hash, key, value;
};
#define DELETED UINT64_MAX

/* Whether an object is the one that a singleton class is made for. */
static bool is_attached(const struct ruby_reader *r, uint64_t object, uint64_t singleton)
{
    uint64_t head[2];
    return is_object(object) && source_read(r->memory, object, head, sizeof head) && head[1] == singleton;
}

static bool is_string(const struct ruby_reader *r, uint64_t object)
{
    uint64_t flags;
    return is_object(object) && read_word(r, object, &flags) && TYPE(flags) == TYPE_STRING;
}

/* Looks through a class's variables for its name; of a singleton class, for what it is attached to. */
static uint64_t in_table(const struct ruby_reader *r, uint64_t object, bool is_singleton)
{
    uint64_t extension, at;
    struct table t;
    struct entry entry[16];
    if (!read_word(r, object + CLASS_EXTENSION, &extension) ||
        !read_word(r, extension + EXTENSION_TABLE, &at) || !source_read(r->memory, at, &t, sizeof t) ||
        t.first > t.bound)
        return 0;
    uint64_t n = min_of(t.bound - t.first, (uint64_t)RUBY_VARIABLES_MAX);
    for (uint64_t i = 0; i < n; i++) {
        const struct entry *e = &entry[i % ARRAY_LEN(entry)];
        if (e == entry && !source_read(r->memory, t.entries + (t.first + i) * sizeof *e, entry,
                                       min_of(n - i, (uint64_t)ARRAY_LEN(entry)) * sizeof *e))
            return 0;
        if (e->hash == DELETED)
            continue;
        if (is_singleton ? is_attached(r, e->value, object)
                         : is_string(r, e->value) && bytes_is(ruby_symbol(r, e->key), "__classpath__"))
            return e->value;
    }
    return 0;
}

/* Where only the values are known: it is the first one that a class gets. */
static uint64_t in_values(const struct ruby_reader *r, uint64_t object, bool is_singleton)
{
    uint64_t values, value;
    if (!read_word(r, object + CLASS_VALUES, &values))
        return 0;
    for (uint32_t i = 0; i < (is_singleton ? 4 : 1) && read_word(r, values + 8 * (uint64_t)i, &value); i++)
        if (is_singleton ? is_attached(r, value, object) : is_string(r, value))
            return value;
    return 0;
}

/* The string that is a class's name, or the object that a singleton class is attached to. 0: there is none.
 */
static uint64_t name_of(const struct ruby_reader *r, uint64_t object, bool is_singleton)
{
    uint64_t found;
    switch (r->place->classes) {
    case RUBY_CLASS_TABLE: return in_table(r, object, is_singleton);
    case RUBY_CLASS_VALUES: return in_values(r, object, is_singleton);
    default: return read_word(r, object + (is_singleton ? CLASS_ATTACHED : CLASS_PATH), &found) ? found : 0;
    }
}

/* Names of constants, and "::". Others are made of addresses ("#<Class:0x000…>"), which are never again the
 * same. */
static bool is_path(struct bytes name)
{
    return name.n > 0 && !(name.p[0] < 'A' || (name.p[0] > 'Z' && name.p[0] < 0x80)) &&
           !memchr(name.p, '#', name.n);
}

struct bytes ruby_class(const struct ruby_reader *r, uint64_t object, bool *is_own)
{
    uint64_t flags;
    *is_own = false;
    for (int i = 0; i < 2; i++) {
        if (!is_object(object) || !read_word(r, object, &flags) ||
            (TYPE(flags) != TYPE_CLASS && TYPE(flags) != TYPE_MODULE))
            break;
        bool is_singleton = TYPE(flags) == TYPE_CLASS && (flags & IS_SINGLETON);
        object = name_of(r, object, is_singleton);
        if (!is_singleton) {
            struct bytes name = ruby_string(r, object);
            return is_path(name) ? name : bytes_of(NULL, 0);
        }
        *is_own = true;
    }
    return bytes_of(NULL, 0);
}
