/* SPDX-License-Identifier: Apache-2.0 */
/* needs: proto/coding */
/*
 * The decoders on any bytes: the first byte picks the coding and the limit, the rest is the stream. What
 * comes out must be within the limit, and what is charged must be what is held.
 */
#include "proto/coding/coding.h"
#include "proto/base/room.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static struct coding_decoder *decoder;
    if (!decoder && !(decoder = coding_decoder_new()))
        return 0;
    if (len == 0)
        return 0;
    const size_t limit = (size_t)1 << (data[0] >> 3 & 15);
    struct budget budget = BUDGET_INIT(1 << 20, NULL);
    struct buffer out = {0};
    int r = coding_decode(decoder, (enum coding)((data[0] & 7) % CODING_UNKNOWN), bytes_of(data + 1, len - 1),
                          limit, 64, &budget, &out);
    if (out.n > limit || (r != 0 && out.n != 0) || atomic_load(&budget.used) != out.cap ||
        (r == 0 && out.cap - out.n < 64))
        abort();
    room_release(&out, &budget);
    if (atomic_load(&budget.used) != 0)
        abort();
    return 0;
}
