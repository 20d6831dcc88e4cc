/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fuzzer: libFuzzer, or tests/lib/fuzz_main.c, calls it with each input.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "proto/base/macros.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* What must hold whatever the input is. */
static inline void require(bool condition)
{
    if (!condition)
        abort();
}

#endif
