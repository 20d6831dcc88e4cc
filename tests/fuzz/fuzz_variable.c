/* SPDX-License-Identifier: Apache-2.0 */
/* needs: sender/context */
#include "sender/context/record.h"
#include "sender/context/variable.h"
#include "tests/fuzz/fuzz.h"

/* An ELF file that somebody profiled has mapped; and, of the same bytes, a record that a thread published. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct source s = source_memory(bytes_of(data, n));
    struct variable v;
    struct record r;
    uint8_t key;
    struct bytes name, value;
    (void)variable_find(&s, &v);
    if (record_read(data, n < CONTEXT_BYTES_MAX ? n : CONTEXT_BYTES_MAX, &r))
        while (r.has_labels ? record_next_label(&r.attributes, &name, &value)
                            : record_next(&r.attributes, &key, &value))
            ;
    return 0;
}
