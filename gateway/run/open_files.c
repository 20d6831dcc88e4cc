/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/run/open_files.h"

#include <sys/resource.h>

#include "proto/base/macros.h"

uint64_t open_files_raise(uint64_t wanted)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return 0;
    if (limit.rlim_cur < wanted) {
        struct rlimit more = {.rlim_cur = min_of(wanted, (uint64_t)limit.rlim_max),
                              .rlim_max = limit.rlim_max};
        if (setrlimit(RLIMIT_NOFILE, &more) == 0)
            limit = more;
    }
    return limit.rlim_cur;
}
