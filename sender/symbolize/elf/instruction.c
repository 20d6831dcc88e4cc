/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/symbolize/elf/instruction.h"

#include "proto/base/macros.h"

/* What is behind an opcode, a letter each: nothing (.), operands (m) and then a byte (M) or four (Z), a byte
 * (b), two (w), four (z), as many as the register has (v), an address (a); some have other tables behind them
 * (*), some are prefixes (p), and some are in no program (x). g and G have what M and Z have, if their
 * extension is 0 or 1. */
static const char one_byte[] = "mmmmbzxxmmmmbzx*"
                               "mmmmbzxxmmmmbzxx"
                               "mmmmbzpxmmmmbzpx"
                               "mmmmbzpxmmmmbzpx"
                               "pppppppppppppppp"
                               "................"
                               "xx*mppppzZbMxxxx"
                               "bbbbbbbbbbbbbbbb"
                               "MZxMmmmmmmmmmmmm"
                               "..........x....."
                               "aaaa....bz......"
                               "bbbbbbbbvvvvvvvv"
                               "MMw.**MZx.xx.bxx"
                               "mmmmxxx.mmmmmmmm"
                               "bbbbxxxxzzxbxxxx"
                               "pxpp..gG......mm",
                  two_bytes[] = "mmmmx.xxxxx.xmxx"
                                "mmmmmmmmmmmmmmmm"
                                "xxxxxxxxmmmmmmmm"
                                "x.x.xxxx*x*xxxxx"
                                "mmmmmmmmmmmmmmmm"
                                "mmmmmmmmmmmmmmmm"
                                "mmmmmmmmmmmmmmmm"
                                "MMMMmmm.mmmmmmmm"
                                "zzzzzzzzzzzzzzzz"
                                "mmmmmmmmmmmmmmmm"
                                "...mMmxx..xmMmmm"
                                "mmmmmmmmmmMmmmmm"
                                "mmMmMMMm........"
                                "mmmmmmmmmmmmmmmm"
                                "mmmmmmmmmmmmmmmm"
                                "mmmmmmmmmmmmmmmm";

_Static_assert(sizeof one_byte == 257 && sizeof two_bytes == 257, "a letter each");

#define LENGTH_MAX 15u

struct scan {
    const uint8_t *p;
    size_t n, i;
    bool is_bad;
};

static uint8_t next(struct scan *s)
{
    s->is_bad |= s->i >= s->n;
    return s->is_bad ? 0 : s->p[s->i++];
}

/* A number of n bytes with a sign. */
static int64_t number(struct scan *s, unsigned n)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < n; i++)
        value |= (uint64_t)next(s) << 8 * i;
    return n == 0 || n == 8 ? (int64_t)value : (int64_t)(value << (64 - 8 * n)) >> (64 - 8 * n);
}

static void read_operands(struct scan *s, unsigned rex, struct instruction *ret)
{
    uint8_t modrm = next(s), mod = modrm >> 6, rm = modrm & 7;
    ret->has_operands = true;
    ret->extension = modrm >> 3 & 7;
    ret->reg = (uint8_t)(ret->extension | (rex & 4) << 1);
    if (mod == 3) {
        ret->rm = (uint8_t)(rm | (rex & 1) << 3);
        return;
    }
    ret->base = (uint8_t)(rm | (rex & 1) << 3);
    if (rm == 4) {
        uint8_t sib = next(s);
        bool has_index = (sib >> 3 & 7) != 4 || (rex & 2);
        ret->base = has_index ? REGISTER_NONE : (uint8_t)((sib & 7) | (rex & 1) << 3);
        rm = sib & 7;
        if (rm == 5 && mod == 0)
            ret->base = REGISTER_NONE;
    } else if (rm == 5 && mod == 0) {
        ret->base = REGISTER_NONE; /* rip */
    }
    if (mod == 1)
        ret->displacement = (int32_t)number(s, 1);
    else if (mod == 2 || rm == 5)
        ret->displacement = (int32_t)number(s, 4);
}

/* The opcode of a vector instruction (VEX, EVEX), whose first byte is read, and what is behind it. */
static char read_vector(struct scan *s, uint8_t first, struct instruction *ret)
{
    uint8_t map = 1;
    if (first == 0xc5) {
        (void)next(s);
    } else {
        map = next(s) & (first == 0x62 ? 7 : 31);
        (void)next(s);
        if (first == 0x62)
            (void)next(s);
    }
    ret->opcode = next(s);
    ret->map = MAP_OTHER;
    if (map == 1)
        return two_bytes[ret->opcode] == 'M' || two_bytes[ret->opcode] == '.' ? two_bytes[ret->opcode] : 'm';
    return map == 3 ? 'M' : map == 2 || map == 5 || map == 6 ? 'm' : 'x';
}

/* The opcode, and the letter of what is behind it. */
static char read_opcode(struct scan *s, uint8_t first, struct instruction *ret)
{
    ret->opcode = first;
    if (one_byte[first] != '*')
        return one_byte[first];
    if (first != 0x0f)
        return read_vector(s, first, ret);
    ret->opcode = next(s);
    ret->map = MAP_TWO_BYTES;
    if (two_bytes[ret->opcode] != '*')
        return two_bytes[ret->opcode];
    ret->map = MAP_OTHER;
    char behind = ret->opcode == 0x38 ? 'm' : 'M';
    ret->opcode = next(s);
    return behind;
}

static void read_behind(struct scan *s, char behind, struct instruction *ret)
{
    unsigned four = ret->is_narrow ? 2 : 4;
    bool is_test = ret->extension < 2;
    switch (behind) {
    case 'b':
    case 'M': ret->immediate = number(s, 1); break;
    case 'w': ret->immediate = number(s, 2); break;
    case 'z':
    case 'Z': ret->immediate = number(s, four); break;
    case 'v': ret->immediate = number(s, ret->is_wide ? 8 : four); break;
    case 'a': ret->immediate = number(s, 8); break;
    case 'g': ret->immediate = number(s, is_test ? 1 : 0); break;
    case 'G': ret->immediate = number(s, is_test ? four : 0); break;
    case 'x': s->is_bad = true; break;
    default: break;
    }
}

bool instruction_read(struct bytes code, size_t at, struct instruction *ret)
{
    struct scan s = {.p = (const uint8_t *)code.p + at, .n = min_of(code.n - at, (size_t)LENGTH_MAX)};
    struct instruction is = {.rm = REGISTER_NONE, .base = REGISTER_NONE};
    unsigned rex = 0;
    uint8_t byte = next(&s);
    for (; one_byte[byte] == 'p' && !s.is_bad; byte = next(&s)) {
        is.is_narrow |= byte == 0x66;
        is.is_repeated |= byte == 0xf2 || byte == 0xf3;
        rex = (byte & 0xf0) == 0x40 ? byte : 0; /* counts right before the opcode */
    }
    is.is_wide = rex & 8;
    char behind = read_opcode(&s, byte, &is);
    /* A jump has four bytes whatever is before it. */
    if (is.map == MAP_TWO_BYTES ? behind == 'z' : is.map == MAP_ONE_BYTE && (byte == 0xe8 || byte == 0xe9))
        is.is_narrow = false;
    if (behind == 'm' || behind == 'M' || behind == 'Z' || behind == 'g' || behind == 'G')
        read_operands(&s, rex, &is);
    else if (is.map == MAP_ONE_BYTE && ((byte & 0xf0) == 0x50 || (byte & 0xf8) == 0xb8))
        is.rm = (uint8_t)((byte & 7) | (rex & 1) << 3);
    read_behind(&s, behind, &is);
    is.length = (uint8_t)s.i;
    *ret = is;
    return !s.is_bad;
}

enum instruction_flow instruction_flow(const struct instruction *is)
{
    uint8_t op = is->opcode;
    if (is->map == MAP_TWO_BYTES) /* ud2, ud1 (clang's, with a reason as its operand), ud0 */
        return op >= 0x80 && op <= 0x8f                 ? FLOW_BRANCH
               : op == 0x0b || op == 0xb9 || op == 0xff ? FLOW_STOP
                                                        : FLOW_ON;
    if (is->map != MAP_ONE_BYTE)
        return FLOW_ON;
    if ((op >= 0x70 && op <= 0x7f) || (op >= 0xe0 && op <= 0xe3))
        return FLOW_BRANCH;
    switch (op) {
    case 0xe8: return FLOW_CALL;
    case 0xe9:
    case 0xeb: return FLOW_JUMP;
    case 0xc2:
    case 0xc3: return FLOW_RETURN;
    case 0xcc:
    case 0xf4: return FLOW_STOP;
    case 0xff: return is->extension == 2 ? FLOW_CALL : is->extension == 4 ? FLOW_JUMP_BY_TABLE : FLOW_ON;
    default: return FLOW_ON;
    }
}
