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

/* A function as it was read. */
struct function {
    uint64_t word[PHP_FUNCTION_WORDS];
    uint64_t source[PHP_SOURCE_WORDS]; /* of an internal one: its name, 0 */
};

/* Whether it is the word's function that is there. */
static bool read_function(const struct source *memory, const struct php_place *place,
                          const struct sample_frame *word, struct function *ret)
{
    uint64_t at = word->where & ~7ull, hash;
    if (!source_read(memory, at, ret->word, sizeof ret->word))
        return false;
    ret->source[0] = ret->word[PHP_FUNCTION_NAME];
    ret->source[1] = 0;
    return (PHP_IS_INTERNAL(ret->word) ||
            source_read(memory, at + place->file, ret->source, sizeof ret->source)) &&
           source_read(memory, ret->source[0] + PHP_STRING_HASH_AT, &hash, sizeof hash) &&
           PHP_COOKIE(ret->word, hash, ret->source[1]) == word->file;
}

/* A string, to its first NUL: classes without a name have their file and line behind one. .n 0: there is
 * none.
 */
static struct bytes read_string(const struct source *memory, uint64_t at, char to[PHP_NAME_MAX])
{
    uint64_t length;
    if (!at || !source_read(memory, at + PHP_STRING_LENGTH_AT, &length, sizeof length))
        return BYTES_LIT("");
    size_t n = (size_t)min_of(length, (uint64_t)PHP_NAME_MAX);
    if (!source_read(memory, at + PHP_STRING_TEXT_AT, to, n))
        return BYTES_LIT("");
    n = strnlen(to, n);
    if (n < length && n == PHP_NAME_MAX) { /* not in the middle of a character */
        while (n > 0 && ((uint8_t)to[n - 1] & 0xc0) == 0x80)
            n--;
        n -= n > 0 && (uint8_t)to[n - 1] >= 0xc0;
    }
    return bytes_of(to, n);
}

/* "Class::method", or the function alone. */
static struct bytes full_name(const struct source *memory, const struct function *f, struct arena *text)
{
    char name[PHP_NAME_MAX], class[PHP_NAME_MAX], both[2 * PHP_NAME_MAX + 2];
    uint64_t of = 0;
    struct bytes method = read_string(memory, f->word[PHP_FUNCTION_NAME], name), scope = BYTES_LIT("");
    if (f->word[PHP_FUNCTION_SCOPE] &&
        source_read(memory, f->word[PHP_FUNCTION_SCOPE] + PHP_CLASS_NAME_AT, &of, sizeof of))
        scope = read_string(memory, of, class);
    if (method.n == 0 || scope.n == 0)
        return arena_copy(text, method);
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
    char file[PHP_NAME_MAX];
    uint64_t at = word->where & ~7ull, hash[2];
    ret->name = what < sizeof names / sizeof *names ? bytes_str(names[what]) : BYTES_LIT("");
    if (!source_read(memory, at + PHP_STRING_HASH_AT, &hash[0], sizeof *hash))
        return;
    struct bytes path = read_string(memory, at, file);
    if (!source_read(memory, at + PHP_STRING_HASH_AT, &hash[1], sizeof *hash) ||
        PHP_FILE_COOKIE(hash[0]) != word->file || PHP_FILE_COOKIE(hash[1]) != word->file)
        return; /* it is gone by now, as eval's is with it */
    ret->file = arena_copy(text, path);
    ret->line = word->extra;
    if (what == PHP_WHERE_FILE && ret->file.n > 0)
        ret->name = ret->file;
}

static bool function_name(const struct source *memory, const struct php_place *place,
                          const struct sample_frame *word, struct arena *text, struct runtime_name *ret)
{
    char file[PHP_NAME_MAX];
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
