/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A SharedFunctionInfo has a function's name, or, once the function was compiled, a ScopeInfo that has it.
 * The garbage collector moves either at times, and frees them with the function: so what tells the function
 * from others is compared with the word before anything is read by it, and again when all was.
 */
#include "sender/runtimes/v8/function.h"

#include "proto/base/macros.h"
#include "sender/runtimes/v8/heap.h"
#include "sender/runtimes/v8/lines.h"

/* A SharedFunctionInfo, as far as it is read. */
struct shared {
    uint64_t word[V8_SHARED_WORDS];
};

static uint64_t field(const struct shared *s, uint16_t at)
{
    return s->word[at / 8 % V8_SHARED_WORDS];
}

/* Reads the word's function, if it is there. */
static bool read_shared(const struct heap *h, const struct sample_frame *word, struct shared *ret)
{
    const struct v8_place *p = h->place;
    uint64_t script_id;
    if (p->read > sizeof ret->word || !source_read(h->memory, word->where, ret->word, p->read) ||
        !heap_is(h, word->where | V8_TAG, p->type_shared))
        return false;
    uint64_t script = field(ret, p->script);
    if (!p->script_id || !heap_field(h, script, p->script_id, &script_id))
        script_id = 0;
    uint32_t number = (uint32_t)(field(ret, p->number) >> 8 * (p->number & 4));
    return V8_COOKIE(script_id, number, field(ret, p->name), script) == word->file;
}

/* What a ScopeInfo says of its function; tagged values, 0: nothing. */
struct scope {
    uint64_t name, inferred;
    uint32_t start; /* in the script; NO_POSITION: not known */
};
#define NO_POSITION UINT32_MAX

/* v8: src/objects/scope-info.tq. Words: flags, how many parameters, how many locals in a context, where it
 * begins and ends (from 13 on), then the locals, and what flags say is there. */
enum { SCOPE_FLAGS = 0, SCOPE_LOCALS = 2, SCOPE_POSITION = 3 };
#define SCOPE_KIND(flags)         ((flags)&15)
#define SCOPE_HAS_CLASS(flags)    ((flags) >> 10 & 1)
#define SCOPE_HAS_NAME(flags)     (((flags) >> 12 & 3) != 0)
#define SCOPE_HAS_INFERRED(flags) ((flags) >> 14 & 1)
#define SCOPE_LOCALS_INLINE       75u /* more are a table of their own */
#define SCOPE_LOCALS_MAX          65535u
#define SCOPE_TAIL                6u /* words behind the locals that are looked at */

static bool read_scope(const struct heap *h, uint64_t info, struct scope *ret)
{
    const struct v8_place *p = h->place;
    uint64_t head[5], tail[SCOPE_TAIL];
    bool has_position = p->scope_first > SCOPE_POSITION;
    if (!source_read(h->memory, info - V8_TAG + 8, head, sizeof head))
        return false;
    /* A Smi, or (from 13 on) as it is. */
    uint32_t flags = (uint32_t)head[SCOPE_FLAGS] ? (uint32_t)head[SCOPE_FLAGS] : heap_smi(head[SCOPE_FLAGS]);
    uint32_t n = heap_smi(head[SCOPE_LOCALS]), i = 0;
    if (n > SCOPE_LOCALS_MAX)
        return false;
    uint32_t at = p->scope_first + (SCOPE_KIND(flags) == p->scope_module) +
                  (n < SCOPE_LOCALS_INLINE ? 2 * n : n + 1) + SCOPE_HAS_CLASS(flags);
    if (!source_read(h->memory, info - V8_TAG + 8 + 8 * (uint64_t)at, tail, sizeof tail))
        return false;
    *ret = (struct scope){.start = NO_POSITION};
    if (SCOPE_HAS_NAME(flags)) {
        ret->name = tail[i];
        i += 2;
    }
    if (SCOPE_HAS_INFERRED(flags))
        ret->inferred = tail[i++];
    uint64_t start = has_position ? head[SCOPE_POSITION] : tail[i];
    uint64_t end = has_position ? head[SCOPE_POSITION + 1] : tail[i + 1];
    if (!(start & V8_TAG) && !(end & V8_TAG) && heap_smi(start) < heap_smi(end))
        ret->start = heap_smi(start);
    return true;
}

/* A tagged value as a name: one that is not there, 0 or undefined, is empty. False: it cannot be read. */
static bool read_name(const struct heap *h, uint64_t value, struct arena *text, struct bytes *ret)
{
    uint16_t type;
    *ret = BYTES_LIT("");
    if (!(value & V8_TAG))
        return true;
    if (!heap_type(h, value, &type))
        return false;
    if (type >= HEAP_NO_STRING)
        return true;
    *ret = heap_string(h, value, text);
    return ret->p != NULL;
}

/* Its own name, else the one V8 made up from what it was assigned to, as stack traces have them. */
static bool find_name(const struct heap *h, const struct shared *s, struct arena *text, struct bytes *name,
                      uint32_t *start)
{
    struct scope scope = {.name = field(s, h->place->name), .start = NO_POSITION};
    if (heap_is(h, scope.name, h->place->type_scope) && !read_scope(h, scope.name, &scope))
        return false;
    if (!read_name(h, scope.name, text, name) || (name->n == 0 && !read_name(h, scope.inferred, text, name)))
        return false;
    if (name->n == 0)
        *name = BYTES_LIT("<anonymous>");
    *start = scope.start;
    return true;
}

bool v8_function_name(const struct source *memory, const struct v8_place *place,
                      const struct sample_frame *word, struct arena *text, struct runtime_name *ret)
{
    struct heap h = {memory, place};
    struct shared shared;
    struct runtime_name is = {.file = BYTES_LIT("")};
    uint32_t start, position;
    uint64_t file;
    if (!read_shared(&h, word, &shared) || !find_name(&h, &shared, text, &is.name, &start))
        return false;
    uint64_t script = field(&shared, place->script);
    if (heap_is(&h, script, place->type_script)) {
        if (!heap_field(&h, script, place->script_name, &file) || !read_name(&h, file, text, &is.file))
            return false;
        if (word->extra == V8_NO_OFFSET ||
            !v8_position(&h, field(&shared, place->data), word->extra, &position))
            position = start;
        if (position != NO_POSITION)
            is.line = v8_line(&h, script, position);
    }
    if (!read_shared(&h, word, &shared))
        return false;
    *ret = is;
    return true;
}
