/* SPDX-License-Identifier: Apache-2.0 */
/* needs: sender/symbolize/cache */
/* Names of one file as they are on disk between starts. What is read is written the same way, and read again.
 */
#include "proto/base/buffer.h"
#include "sender/symbolize/cache/stored.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    cleanup(names_release) struct names n = {0};
    struct names_set set = {0}, again = {0};
    cleanup(buffer_release) struct buffer out = BUFFER_INIT(0), twice = BUFFER_INIT(0);
    if (stored_decode(bytes_of(data, len), &n.places, &set.ranges) == 0) {
        if (stored_encode(&n, &set, &out) < 0 ||
            stored_decode(buffer_bytes(&out), &n.places, &again.ranges) < 0 ||
            again.ranges.all.n != set.ranges.all.n || stored_encode(&n, &again, &twice) < 0 ||
            !bytes_eq(buffer_bytes(&out), buffer_bytes(&twice)))
            abort();
    } else if (set.ranges.all.n) {
        abort();
    }
    ranges_release(&set.ranges);
    ranges_release(&again.ranges);
    return 0;
}
