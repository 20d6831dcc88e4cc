/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/runtimes/cpython/binary.h"

#include <string.h>

#include "sender/symbolize/elf/cold.h"
#include "sender/symbolize/elf/dynamic.h"

/* "…/python3.9", "…/libpython3.9.so.1.0": 9; 0: it does not say. */
static uint32_t minor_of_name(struct bytes path)
{
    static const char word[] = "python3.";
    struct bytes name = bytes_after_last(path, '/');
    uint32_t minor = 0;
    const uint8_t *at = memmem(name.p, name.n, word, sizeof word - 1), *end = name.p + name.n;
    if (!at)
        return 0;
    for (at += sizeof word - 1; at < end && *at >= '0' && *at <= '9' && minor < 100; at++)
        minor = 10 * minor + (*at - '0');
    return minor;
}

bool cpython_binary_find(struct cpython_binary *ret, const struct source *file, struct bytes path)
{
    struct dynamic d;
    Elf64_Sym eval, runtime, version, type;
    uint64_t hex = 0; /* 0x030b02f0: 3.11.2 */
    if (!dynamic_open(&d, file) || !dynamic_find(&d, "_PyEval_EvalFrameDefault", STT_FUNC, &eval, NULL) ||
        !dynamic_find(&d, "_PyRuntime", STT_OBJECT, &runtime, NULL))
        return false;
    *ret = (struct cpython_binary){.micro = CPYTHON_NO_MICRO,
                                   .eval = eval.st_value,
                                   .eval_size = eval.st_size,
                                   .runtime = runtime.st_value};
    if (dynamic_find(&d, "PyCode_Type", STT_OBJECT, &type, NULL))
        ret->code_type = type.st_value;
    if (!dynamic_find(&d, "Py_Version", STT_OBJECT, &version, NULL))
        ret->minor = minor_of_name(path); /* before 3.11 */
    else if (dynamic_read(&d, version.st_value, &hex, sizeof hex) && hex >> 24 == 3)
        ret->minor = hex >> 16 & 255, ret->micro = hex >> 8 & 255;
    return ret->minor >= CPYTHON_MINOR_FIRST && ret->minor <= CPYTHON_MINOR_LAST;
}

void cpython_binary_find_cold(struct cpython_binary *b, const struct source *file)
{
    struct dynamic d;
    if (dynamic_open(&d, file))
        (void)cold_find(&d, b->eval, b->eval_size, &b->cold, &b->cold_size);
}
