/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/run/strangers.h"

#include <sys/stat.h>

#include "proto/base/log.h"

void strangers_say(struct strangers *s, int fd, const char *path, const char *runtime)
{
    struct stat st;
    if (s->n == STRANGERS_MAX || fstat(fd, &st) < 0)
        return;
    for (uint32_t i = 0; i < s->n; i++)
        if (s->said[i].device == st.st_dev && s->said[i].inode == st.st_ino)
            return;
    s->said[s->n++] = (struct strangers_file){st.st_dev, st.st_ino};
    log_warn(
        "a runtime is not known here, or not in this version or build: its functions are told as machine code%s"
        " runtime=\"%s\" file=\"%s\"",
        s->n == STRANGERS_MAX ? "; no more are said" : "", runtime, path);
}
