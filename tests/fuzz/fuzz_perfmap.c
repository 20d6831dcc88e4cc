/* SPDX-License-Identifier: Apache-2.0 */
/* needs: sender/symbolize sender/procs sender/symbolize/jit */
/* The two texts a profiled process writes: its perf map, and (in part: paths) its maps. */
#include "sender/procs/maps.h"
#include "sender/symbolize/jit/perfmap.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct source s = source_memory(bytes_of(data, len));
    struct arena names = {0};
    struct perfmap_answer answers[] = {
        {.address = 0}, {.address = 0x1001}, {.address = 0x7f0000001008}, {.address = UINT64_MAX}};
    enum { N = sizeof answers / sizeof *answers };
    (void)perfmap_search(&s, answers, N, &names);
    for (int i = 0; i < N; i++)
        if (answers[i].name.p)
            (void)perfmap_frame_type(answers[i].name);
    arena_release(&names);

    cleanup(maps_release) struct maps maps = {0};
    struct bytes rest = s.memory;
    while (rest.n > 0) {
        const uint8_t *end = memchr(rest.p, '\n', rest.n);
        size_t n = end ? (size_t)(end - rest.p) : rest.n;
        (void)maps_line(&maps, bytes_of(rest.p, n));
        n += end != NULL;
        rest = bytes_of(rest.p + n, rest.n - n);
    }
    for (uint32_t i = 1; i < maps.regions.n; i++)
        if (maps.regions.p[i].start < maps.regions.p[i - 1].end)
            __builtin_trap();
    return 0;
}
