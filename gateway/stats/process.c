/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/stats/process.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "proto/base/file.h"

static double boot_time(void)
{
    static const char key[] = "btime ";
    char line[256];
    double found = 0;
    FILE *f = fopen("/proc/stat", "re");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, key, sizeof key - 1))
            found = strtod(line + sizeof key - 1, NULL);
    if (f)
        fclose(f);
    return found;
}

static uint64_t count_files(void)
{
    uint64_t n = 0;
    DIR *dir = opendir("/proc/self/fd");
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        n += entry->d_name[0] != '.';
    if (dir)
        closedir(dir);
    return n > 0 ? n - 1 : 0; /* without the one that counts */
}

void process_facts_read(struct process_facts *ret)
{
    char text[1024];
    uint64_t utime = 0, stime = 0, threads = 0, start = 0, vsize = 0;
    int64_t rss = 0;
    struct rlimit limit;
    long ticks = sysconf(_SC_CLK_TCK), page = sysconf(_SC_PAGESIZE);
    double hz = ticks > 0 ? (double)ticks : 100;

    *ret = (struct process_facts){0};
    file_text("/proc/self/stat", text, sizeof text);
    const char *rest = strrchr(text, ')'); /* the command's name may hold anything, parentheses too */
    if (rest && sscanf(rest + 1,
                       " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %" SCNu64 " %" SCNu64
                       " %*d %*d %*d %*d %" SCNu64 " %*d %" SCNu64 " %" SCNu64 " %" SCNd64,
                       &utime, &stime, &threads, &start, &vsize, &rss) == 6) {
        ret->cpu_seconds = (double)(utime + stime) / hz;
        ret->start_seconds = boot_time() + (double)start / hz;
        ret->virtual_bytes = vsize;
        ret->resident_bytes = (uint64_t)(rss > 0 ? rss : 0) * (uint64_t)(page > 0 ? page : 4096);
        ret->threads = threads;
    }
    ret->open_files = count_files();
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        ret->max_files = limit.rlim_cur;
}
