/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <unistd.h>

#include "proto/base/log.h"
#include "sender/run/strangers.h"

UNIT(a_file_is_said_once_and_so_many_in_all)
{
    static struct strangers s;
    char path[UNIT_PATH_MAX];
    log_set_level(LOG_LEVEL_ERROR);
    for (uint32_t i = 0; i < STRANGERS_MAX + 2; i++) {
        int fd = unit_new_file(path, "");
        strangers_say(&s, fd, path, "PyPy");
        strangers_say(&s, fd, path, "PyPy");
        ck_assert_uint_eq(s.n, i < STRANGERS_MAX ? i + 1 : STRANGERS_MAX);
        close(fd);
    }
    strangers_say(&s, -1, path, "PyPy");
    ck_assert_uint_eq(s.n, STRANGERS_MAX);
}
