/* SPDX-License-Identifier: Apache-2.0 */
/* needs: sender/runtimes */
#include <string.h>

#include "sender/runtimes/hotspot/compiled.h"
#include "sender/runtimes/hotspot/step.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/moving_memory.h"

static int load(void *of, uint64_t address, uint64_t *value)
{
    if (address >> 40)
        return -1;
    read_some(NULL, address, value, sizeof *value);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct runtime_place place = {0};
    struct hotspot_place *p = (struct hotspot_place *)place.word;
    struct allowance one = {.left = 1 << 20};
    struct runtime_name name;
    struct arena text = {0};
    if (n < 4)
        return 0;
    struct source s = memory_of(data, n);
    memcpy(p, data, n < sizeof *p ? n : sizeof *p);
    /* As hotspot_layout has made sure of. */
    p->heap[0] = (struct hotspot_heap){.low = 4096, .size = 1 << 20, .segments = 0};
    p->segment_shift = 3 + p->segment_shift % 14;
    p->blob_name &= 127;
    p->blob_frame &= 127;
    p->blob_complete &= 127;
    p->blob_code &= 127;
    p->const_flags &= 31;
    p->const_name &= 31;
    p->const_code_size &= 31;
    p->const_constants &= 31;
    s.allowance = &one;
    struct runtime_process process = {.memory = &s, .place = &place};
    struct runtime_stack stack = {load, NULL};
    struct unwind_registers at = {.ip = 5000, .sp = 8, .bp = 64, .has_all = 1};
    struct sample_frame word = {0};
    for (int i = 0; i < 512; i++) {
        uint64_t sp = at.sp;
        if (!hotspot_step(&process, &stack, &at, &word) || at.sp < sp)
            break;
        if (i < 4)
            (void)runtime_hotspot.resolve(&process, &word, &text, &name);
        at.ip = 4096 + at.ip % (1 << 20);
    }
    for (uint32_t i = 0; i < 3; i++) {
        word = (struct sample_frame){.extra = (uint16_t)(HOTSPOT_STUB - 1 + i), .where = 5000 + 64 * i};
        memcpy(&word.file, data, sizeof word.file);
        (void)runtime_hotspot.resolve(&process, &word, &text, &name);
        (void)hotspot_method_name(&s, p, word.where, data[2], &text, &name);
    }
    arena_release(&text);
    return 0;
}
