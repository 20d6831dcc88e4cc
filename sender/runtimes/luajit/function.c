/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A function of Lua has no name: who calls it finds it in a variable or a field, whose name is in the
 * caller's prototype, as debug.traceback() finds it (lj_debug.c: lj_debug_funcname). What the caller goes on
 * with says where in its code that is, and its code begins with an instruction that no other is like.
 *
 * Prototypes are freed with the last function made of them, and others may get their memory: so what tells
 * one from others is compared with the word before anything is read by it, and again when all was.
 */
#include "sender/runtimes/luajit/function.h"

#include <string.h>

#include "proto/base/macros.h"

static int read_memory(const struct source *memory, void *to, size_t n, uint64_t at)
{
    return source_read(memory, at, to, n) ? 0 : -1;
}

#define LUAJIT_READ(from, to, n, address) read_memory(from, to, n, address)
#include "bpf/luajit_called.h"

/* Objects (lj_obj.h). A prototype's constants are below `constants`, the last first. */
struct prototype {
    uint64_t next;
    uint8_t marked, kind, parameters, room;
    uint32_t n_code, unused;
    uint64_t list, constants, upvalues;
    uint32_t n_constants, n_numbers, bytes;
    uint8_t n_upvalues, flags;
    uint16_t trace;
    uint64_t chunk;
    uint64_t lines; /* the first one, and how many, 4 bytes each */
    uint64_t line_info, upvalue_names, variables;
};
_Static_assert(sizeof(struct prototype) == LUAJIT_PROTO_BYTES, "as it is");
#define KIND_PROTOTYPE 7u
#define TEXT_LENGTH_AT 20u
#define TEXT_AT        24u

/* Instructions: the latest versions have some more behind OP_JUMP, and then these that functions begin with.
 */
enum {
    OP_KNIL = 44,
    OP_JUMP = 88,
};
#define OP(op)   LUAJIT_OP(op)
#define OP_C(op) ((op) >> 16 & 255)
#define OP_D(op) ((op) >> 16)

/* Instructions of a function looked at, back from a call; some at a time. */
#define CODE_MAX     8192u
#define CODE_AT_ONCE 512u
/* Bytes of what names local variables or upvalues, and moves from one to the other that are followed. */
#define VARIABLES_MAX 32768u
#define MOVES_MAX     16

/* A function's code, read in pieces. */
struct code {
    const struct source *memory;
    uint64_t start;
    uint64_t at; /* of `piece`; 0: nothing is there */
    uint32_t piece[CODE_AT_ONCE];
};

/* The instruction at an address; that, and what is before it, is read at once. 0: it is not there, as one
 * that no call has on its way. */
static uint32_t code_at(struct code *c, uint64_t at)
{
    if (!c->at || at - c->at >= sizeof c->piece) {
        c->at = at + 4 - sizeof c->piece;
        if (!source_read(c->memory, c->at, c->piece, sizeof c->piece)) { /* memory begins in between */
            c->at = at & ~4095ull;
            if (!source_read(c->memory, c->at, c->piece, (size_t)min_of(at + 4 - c->at, sizeof c->piece))) {
                c->at = 0;
                return 0;
            }
        }
    }
    return c->piece[(at - c->at) / 4];
}

static bool read_prototype(const struct source *memory, uint64_t at, struct prototype *ret)
{
    return source_read(memory, at, ret, sizeof *ret) && ret->kind == KIND_PROTOTYPE;
}

/* The prototype whose code has an instruction. */
static bool prototype_of(struct code *c, uint64_t at, struct prototype *ret)
{
    for (uint32_t i = 1; i < CODE_MAX && at > sizeof *ret; i++) {
        at -= 4;
        if (OP(code_at(c, at)) > OP_JUMP && read_prototype(c->memory, at - sizeof *ret, ret) &&
            ret->n_code > i) {
            c->start = at;
            return true;
        }
    }
    return false;
}

/* A string; .n 0: it is none, or no text. */
static struct bytes read_text(const struct source *memory, uint64_t at, struct arena *text)
{
    uint8_t raw[LUAJIT_NAME_MAX + 1];
    uint32_t length;
    if (!source_read(memory, at + TEXT_LENGTH_AT, &length, sizeof length) || !length)
        return BYTES_LIT("");
    size_t n = min_of((size_t)length, sizeof raw);
    if (!source_read(memory, at + TEXT_AT, raw, n))
        return BYTES_LIT("");
    struct bytes name = bytes_cut(bytes_of(raw, n), LUAJIT_NAME_MAX);
    return bytes_is_utf8(name) ? arena_copy(text, name) : BYTES_LIT("");
}

static struct bytes constant(const struct source *memory, const struct prototype *p, uint32_t number,
                             struct arena *text)
{
    uint64_t at;
    return number < p->n_constants && runtime_load(memory, p->constants - 8 * ((uint64_t)number + 1), &at)
               ? read_text(memory, at, text)
               : BYTES_LIT("");
}

/* What names variables: as much of it as there is in the prototype. */
static struct bytes read_names(const struct source *memory, uint64_t prototype, const struct prototype *p,
                               uint64_t at, struct arena *text)
{
    uint64_t room = prototype + p->bytes - at;
    if (!at || at < prototype || room > p->bytes || room == 0)
        return BYTES_LIT("");
    size_t n = min_of((size_t)room, (size_t)VARIABLES_MAX);
    char *to = arena_alloc(text, n);
    return to && source_read(memory, at, to, n) ? bytes_of(to, n) : BYTES_LIT("");
}

static uint64_t read_number(struct bytes *from)
{
    uint64_t ret = 0;
    for (uint32_t shift = 0; from->n > 0 && shift < 35; shift += 7) {
        uint8_t byte = *(const uint8_t *)from->p;
        *from = bytes_of((const uint8_t *)from->p + 1, from->n - 1);
        ret |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            break;
    }
    return ret;
}

/* The name up to the next NUL, which is left behind. */
static struct bytes take_name(struct bytes *from)
{
    size_t n = strnlen((const char *)from->p, from->n);
    struct bytes ret = bytes_of(from->p, n);
    n = min_of(n + 1, from->n);
    *from = bytes_of((const uint8_t *)from->p + n, from->n - n);
    return ret;
}

/* The local variable that is in a slot at an instruction's number; .n 0: there is none. Each has the number
 * of the first instruction it is there at, from the one before, and of how many. */
static struct bytes variable(struct bytes names, uint32_t number, uint32_t slot)
{
    static const char *const own[] = {
        NULL, "(for index)", "(for limit)", "(for step)", "(for generator)", "(for state)", "(for control)"};
    uint64_t first = 0;
    while (names.n > 0) {
        uint8_t kind = *(const uint8_t *)names.p;
        if (kind == 0)
            break;
        struct bytes name = kind < sizeof own / sizeof *own ? bytes_str(own[kind]) : take_name(&names);
        if (kind < sizeof own / sizeof *own)
            names = bytes_of((const uint8_t *)names.p + 1, names.n - 1);
        first += read_number(&names);
        if (first > number)
            break;
        if (number < first + read_number(&names) && slot-- == 0)
            return name;
    }
    return BYTES_LIT("");
}

static struct bytes upvalue(struct bytes names, uint32_t number)
{
    while (number-- > 0 && names.n > 0)
        (void)take_name(&names);
    return names.n > 0 ? take_name(&names) : BYTES_LIT("");
}

/* What an instruction does to its first operand. */
static bool is_set(uint32_t op)
{
    return op == 12 || op == 13 || (op >= LUAJIT_OP_MOV && op < OP_KNIL) || op == LUAJIT_OP_UGET ||
           (op >= 51 && op <= 54) || (op >= 56 && op <= 59);
}

static bool is_set_from_on(uint32_t op)
{
    return op == OP_KNIL || op == 63 || (op >= LUAJIT_OP_CALLM && op <= 73) || (op >= 77 && op <= 84);
}

/* What is in a slot at an instruction (lj_debug_slotname). */
static struct bytes slot_name(struct code *c, uint64_t prototype, const struct prototype *p, uint64_t at,
                              uint32_t slot, struct arena *text)
{
    struct bytes variables = read_names(c->memory, prototype, p, p->variables, text);
    for (int moves = 0; moves < MOVES_MAX; moves++) {
        bool is_moved = false;
        struct bytes name = variable(variables, (uint32_t)((at - c->start) / 4), slot);
        if (name.n > 0)
            return name;
        while (!is_moved && (at -= 4) > c->start) {
            uint32_t op = code_at(c, at);
            if (is_set_from_on(OP(op)) && slot >= LUAJIT_OP_A(op) && (OP(op) != OP_KNIL || slot <= OP_D(op)))
                return BYTES_LIT("");
            if (!is_set(OP(op)) || LUAJIT_OP_A(op) != slot)
                continue;
            switch (OP(op)) {
            case LUAJIT_OP_GGET: return constant(c->memory, p, OP_D(op), text);
            case LUAJIT_OP_TGETS: return constant(c->memory, p, OP_C(op), text);
            case LUAJIT_OP_UGET:
                return upvalue(read_names(c->memory, prototype, p, p->upvalue_names, text), OP_D(op));
            case LUAJIT_OP_MOV:
                slot = OP_D(op);
                is_moved = true;
                break;
            default: return BYTES_LIT("");
            }
        }
        if (!is_moved)
            break;
    }
    return BYTES_LIT("");
}

/* The metamethod that an instruction which is no call may call; "": none. */
static struct bytes metamethod(uint32_t op)
{
    static const struct {
        uint8_t last;
        const char *name;
    } names[] = {{1, "__lt"},     {3, "__le"},        {11, "__eq"},     {19, ""},          {20, "__unm"},
                 {21, "__len"},   {22, "__add"},      {23, "__sub"},    {24, "__mul"},     {25, "__div"},
                 {26, "__mod"},   {27, "__add"},      {28, "__sub"},    {29, "__mul"},     {30, "__div"},
                 {31, "__mod"},   {32, "__add"},      {33, "__sub"},    {34, "__mul"},     {35, "__div"},
                 {36, "__mod"},   {37, "__pow"},      {38, "__concat"}, {50, ""},          {53, "__gc"},
                 {54, "__index"}, {55, "__newindex"}, {59, "__index"},  {64, "__newindex"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (op <= names[i].last)
            return bytes_str(names[i].name);
    return BYTES_LIT("");
}

/* What the caller that goes on at `pc` has called. .n 0: it is not known. */
static struct bytes called(const struct source *memory, uint64_t pc, struct arena *text)
{
    struct code code = {.memory = memory};
    struct prototype p;
    if (pc < 8)
        return BYTES_LIT("");
    uint64_t at = pc - 4;
    uint32_t op = code_at(&code, at);
    if (!LUAJIT_IS_CALL(op))
        return metamethod(OP(op));
    if (!prototype_of(&code, at, &p))
        return BYTES_LIT("");
    uint32_t slot = LUAJIT_OP_A(op);
    if (OP(op) == LUAJIT_OP_ITERC || OP(op) == LUAJIT_OP_ITERN)
        slot = slot >= 3 ? slot - 3 : 0;
    return slot_name(&code, code.start - sizeof p, &p, at, slot, text);
}

/* What tells the name by which the caller that goes on at `pc` has called something, as the step says it; and
 * the instruction it has called it by. False: there is no code. */
static bool read_call(const struct source *memory, uint64_t pc, uint32_t *op, uint64_t *ret)
{
    struct luajit_call call = {0};
    struct code code = {.memory = memory};
    struct prototype p;
    uint32_t *last = &call.code[LUAJIT_CALL_CODE - 1];
    if (!source_read(memory, pc - sizeof call.code, call.code, sizeof call.code) &&
        !source_read(memory, pc - sizeof *last, last, sizeof *last))
        return false;
    *op = *last;
    if (!LUAJIT_IS_CALL(*op) || !prototype_of(&code, pc - 4, &p))
        return true;
    memcpy(call.proto, (const char *)&p + LUAJIT_PROTO_FROM, sizeof call.proto);
    *ret = luajit_called((void *)memory, &call, code.start - sizeof p);
    return true;
}

/* Whether the word's object is there: a prototype, in *p, or just the call. */
static bool read_object(const struct source *memory, const struct sample_frame *word, struct prototype *p)
{
    uint64_t at = LUAJIT_OBJECT(word->where), pc = LUAJIT_CALLER(at, word->file), called = 0;
    uint32_t op = 0, chunk, what = LUAJIT_WHAT(word->where);
    if (pc && !read_call(memory, pc, &op, &called))
        return false;
    if (what == LUAJIT_LUA &&
        (!read_prototype(memory, at, p) ||
         !source_read(memory, p->chunk + LUAJIT_STRING_NUMBER_AT, &chunk, sizeof chunk)))
        return false;
    uint64_t hash = what == LUAJIT_LUA ? LUAJIT_HASH(chunk, p->lines, p->n_code, op, called)
                                       : LUAJIT_HASH(0, 0, 0, op, called);
    return LUAJIT_WHERE(at, hash, what) == word->where;
}

/* The file of a chunk, by its name: "@path", "=what is to be said", or its text. */
static struct bytes chunk_file(struct bytes chunk, struct arena *text)
{
    const char *p = (const char *)chunk.p;
    size_t n = 0;
    if (chunk.n > 0 && (*p == '@' || *p == '='))
        return bytes_of(p + 1, chunk.n - 1);
    while (n < chunk.n && n < 60 && (uint8_t)p[n] >= ' ' && (uint8_t)p[n] < 0x7f)
        n++;
    const char *ret = arena_printf(text, "[string \"%.*s%s\"]", (int)n, p, n < chunk.n ? "..." : "");
    return ret ? bytes_str(ret) : BYTES_LIT("");
}

/* Of a function that nobody has named where it is defined: "<shop.lua:12>". */
static struct bytes place_name(struct bytes file, uint32_t line, struct arena *text)
{
    const char *base = memrchr(file.p, '/', file.n);
    size_t skip = base ? (size_t)(base + 1 - (const char *)file.p) : 0;
    const char *ret =
        arena_printf(text, "<%.*s:%u>", (int)(file.n - skip), (const char *)file.p + skip, line);
    return ret ? bytes_str(ret) : BYTES_LIT("");
}

bool luajit_function_name(const struct source *memory, const struct sample_frame *word, struct arena *text,
                          struct runtime_name *ret)
{
    struct prototype p, after;
    struct runtime_name is = {.file = BYTES_LIT(""), .line = word->extra};
    if (LUAJIT_WHAT(word->where) > LUAJIT_C || !read_object(memory, word, &p))
        return false;
    uint64_t pc = LUAJIT_CALLER(LUAJIT_OBJECT(word->where), word->file);
    is.name = called(memory, pc, text);
    if (LUAJIT_WHAT(word->where) == LUAJIT_LUA) {
        is.file = chunk_file(read_text(memory, p.chunk, text), text);
        if (LUAJIT_FIRST_LINE(p.lines) == 0 && LUAJIT_N_LINES(p.lines))
            is.name = BYTES_LIT("main chunk");
        else if (is.name.n == 0)
            is.name = place_name(is.file, LUAJIT_FIRST_LINE(p.lines), text);
    }
    if (is.name.n == 0 || !is.file.p || !read_object(memory, word, &after))
        return false;
    *ret = is;
    return true;
}
