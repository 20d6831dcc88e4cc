/* SPDX-License-Identifier: Apache-2.0 */
/* needs: sender/unwind */
/* Code that nothing is said of: bytes of a profiled program's. The first one: whether a function begins
 * there, and where the program does. */
#include <string.h>

#include "proto/base/macros.h"
#include "sender/symbolize/elf/instruction.h"
#include "sender/unwind/unsaid.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unwind/walk.h"

struct walk {
    struct memory memory;
    struct unwind_registers r;
    uint64_t next, end;
};

static void on_row(void *user, uint64_t address, const struct unwind_rule *rule)
{
    struct walk *w = user;
    if (address < w->next || address >= w->end || rule->cfa >= UNWIND_CFA_END)
        __builtin_trap();
    w->next = address + 1;
    struct unwind_registers r = w->r;
    if (unwind_step(&w->memory, &r, *rule) == UNWIND_END_NONE && r.sp < w->r.sp)
        __builtin_trap(); /* it must lead on */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static struct unsaid u;
    if (len < 2)
        return 0;
    struct bytes code = bytes_of(data + 1, min_of(len - 1, (size_t)UNSAID_MAX));
    struct instruction is;
    for (size_t at = 0; at < code.n; at++)
        if (instruction_read(code, at, &is) && (is.length == 0 || is.length > code.n - at))
            __builtin_trap();
    struct walk w = {.memory = {.start = 0x7000, .size = code.n, .bytes = code.p}, .end = code.n};
    w.r = (struct unwind_registers){.sp = 0x7000, .bp = 0x7000 + code.n / 2, .has_all = 1};
    unsaid_run(&u, code, data[0] & 1, data[0] >> 1, (uint64_t)unsaid_main(code), on_row, &w);
    return 0;
}
