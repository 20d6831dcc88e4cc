/* SPDX-License-Identifier: Apache-2.0 */
/* needs: sender/pods */
/* What a container runtime or a kubelet answers: the first byte says which. */
#include <assert.h>

#include "sender/pods/table.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct pods_names names = {{0}, {0}, {0}};
    struct pods_table *t = n > 0 ? pods_table_new() : NULL;
    if (!t)
        return 0;
    struct bytes answer = bytes_of(data + 1, n - 1);
    (void)(data[0] == '{' ? pods_table_read_list(t, bytes_of(data, n)) : pods_table_read_cri(t, answer));
    pods_table_sort(t);
    if (pods_table_find(t, BYTES_LIT("c1"), &names))
        assert(names.pod.n > 0 && names.pod.n <= PODS_NAME_MAX && bytes_is_utf8(names.pod));
    (void)pods_table_is_more(t, t);
    pods_table_free(t);
    return 0;
}
