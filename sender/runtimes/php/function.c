/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions go with the request, without opcache, and another one may get the memory: so what tells one from
 * others is compared with the word before anything is read by it, and again when all was.
 *
 * What is in no function goes by PHP's own words: {main}, as in the last line of a trace, of the file that
 * the process was asked for; eval(); and of an included file, whose trace has "include" on all alike, the
 * file.
 */
#include "sender/runtimes/php/function.h"

#include <string.h>

#include "proto/base/macros.h"

#define PHP_NAME_ROOM (PHP_NAME_MAX + 1) /* whose last byte says whether a character ends there */

/* A function as it was read. */
struct function {
    uint64_t word[PHP_FUNCTION_WORDS];
    uint64_t source[PHP_SOURCE_WORDS]; /* of an internal one: 0 */
};

static bool read_hash(const struct source *memory, uint64_t string, uint64_t *ret)
{
    return source_read(memory, string + PHP_STRING_HASH_AT, ret, sizeof *ret);
}

/* Whether it is the word's function that is there. */
static bool read_function(const struct source *memory, const struct php_place *place,
                          const struct sample_frame *word, struct function *ret)
{
    uint64_t at = word->where & ~7ull, name_hash, file_hash = 0;
    ret->source[0] = ret->source[1] = 0;
    return source_read(memory, at, ret->word, sizeof ret->word) &&
           (PHP_IS_INTERNAL(ret->word) ||
            (source_read(memory, at + place->file, ret->source, sizeof ret->source) &&
             read_hash(memory, ret->source[0], &file_hash))) &&
           read_hash(memory, ret->word[PHP_FUNCTION_NAME], &name_hash) &&
           (PHP_COOKIE(ret->word, name_hash, file_hash, ret->source[1]) == word->file ||
            PHP_COOKIE_UNREAD(ret->word) == word->file);
}

/* As zend_inline_hash_func (DJBX33A): a string that was written over has another one, mostly. */
static uint64_t hash_of(const char *text, size_t n)
{
    uint64_t hash = 5381;
    for (size_t i = 0; i < n; i++)
        hash = 33 * hash + (uint64_t)(int8_t)text[i];
    return hash | 1ull << 63;
}

/* A string, to its first NUL: classes without a name have their file and line behind one. .n 0: there is
 * none. */
static struct bytes read_string(const struct source *memory, uint64_t at, char to[PHP_NAME_ROOM])
{
    uint64_t hash, length;
    if (!at || !read_hash(memory, at, &hash) ||
        !source_read(memory, at + PHP_STRING_LENGTH_AT, &length, sizeof length))
        return BYTES_LIT("");
    size_t n = (size_t)min_of(length, (uint64_t)PHP_NAME_ROOM);
    if (!source_read(memory, at + PHP_STRING_TEXT_AT, to, n) ||
        (hash && n == length && hash_of(to, n) != hash))
        return BYTES_LIT("");
    return bytes_cut(bytes_of(to, strnlen(to, n)), PHP_NAME_MAX);
}

/* "Class::method", or the function alone; .n 0: it is gone. */
static struct bytes full_name(const struct source *memory, const struct function *f, struct arena *text)
{
    char name[PHP_NAME_ROOM], class[PHP_NAME_ROOM], both[2 * PHP_NAME_MAX + 2];
    uint64_t of;
    struct bytes method = read_string(memory, f->word[PHP_FUNCTION_NAME], name), scope = BYTES_LIT("");
    if (method.n == 0 || !f->word[PHP_FUNCTION_SCOPE])
        return arena_copy(text, method);
    if (source_read(memory, f->word[PHP_FUNCTION_SCOPE] + PHP_CLASS_NAME_AT, &of, sizeof of))
        scope = read_string(memory, of, class);
    if (scope.n == 0)
        return scope;
    memcpy(both, scope.p, scope.n);
    memcpy(both + scope.n, "::", 2);
    memcpy(both + scope.n + 2, method.p, method.n);
    return arena_copy(text, bytes_of(both, scope.n + 2 + method.n));
}

/* A word of what is in no function, or has no name. */
static void file_name(const struct source *memory, const struct sample_frame *word, struct arena *text,
                      struct runtime_name *ret)
{
    static const char *const names[] = {[PHP_WHERE_MAIN] = "{main}",
                                        [PHP_WHERE_FILE] = "include",
                                        [PHP_WHERE_EVAL] = "eval()",
                                        [PHP_WHERE_CLOSURE] = "{closure}"};
    uint32_t what = PHP_WHERE(word->where);
    char file[PHP_NAME_ROOM];
    uint64_t at = word->where & ~7ull, hash[2];
    ret->name = what < sizeof names / sizeof *names ? bytes_str(names[what]) : BYTES_LIT("");
    if (!read_hash(memory, at, &hash[0]))
        return;
    struct bytes path = read_string(memory, at, file);
    if (!read_hash(memory, at, &hash[1]) || hash[0] != hash[1] ||
        (PHP_FILE_COOKIE(hash[0]) != word->file && word->file != PHP_FILE_COOKIE_UNREAD))
        return; /* it is gone by now, as eval's is with it */
    ret->file = arena_copy(text, path);
    ret->line = word->extra;
    if (what == PHP_WHERE_FILE && ret->file.n > 0)
        ret->name = ret->file;
}

static bool function_name(const struct source *memory, const struct php_place *place,
                          const struct sample_frame *word, struct arena *text, struct runtime_name *ret)
{
    char file[PHP_NAME_ROOM];
    struct function f;
    if (!read_function(memory, place, word, &f))
        return false;
    if (!PHP_IS_INTERNAL(f.word))
        ret->file = arena_copy(text, read_string(memory, f.source[0], file));
    ret->line = word->extra;
    ret->name = full_name(memory, &f, text);
    return read_function(memory, place, word, &f);
}

bool php_function_name(const struct source *memory, const struct php_place *place,
                       const struct sample_frame *word, struct arena *text, struct runtime_name *ret)
{
    struct runtime_name is = {.file = BYTES_LIT("")};
    if (PHP_WHERE(word->where) != PHP_WHERE_FUNCTION)
        file_name(memory, word, text, &is);
    else if (!function_name(memory, place, word, text, &is))
        return false;
    if (is.name.n == 0 || !is.file.p)
        return false;
    *ret = is;
    return true;
}
