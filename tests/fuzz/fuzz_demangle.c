/* SPDX-License-Identifier: Apache-2.0 */
/* needs: sender/symbolize */
/* A symbol's name. */
#include "sender/symbolize/demangle.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char to[DEMANGLE_OUT_MAX];
    size_t n = demangle(bytes_of(data, len), to, sizeof to);
    if (n >= sizeof to || (n && to[n] != 0))
        __builtin_trap();
    return 0;
}
