/* SPDX-License-Identifier: Apache-2.0 */
/* The line of each instruction of iseqs in a process, by sender/runtimes/ruby: arguments are its pid and
 * Ruby's version (31), lines read "address | at:line at:line …", what is written is the same with the lines
 * found. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sender/runtimes/ruby/layout.h"
#include "sender/runtimes/ruby/lines.h"

int main(int argc, char **argv)
{
    static char text[1 << 20], path[64];
    struct ruby_place place;
    struct ruby_lines lines;
    uint64_t body;
    if (argc != 3 || ruby_layout(&place, (uint32_t)atoi(argv[2])) < 0)
        return 2;
    snprintf(path, sizeof path, "/proc/%s/mem", argv[1]);
    struct source memory = {.fd = open(path, O_RDONLY), .size = INT64_MAX};
    while (fgets(text, sizeof text, stdin)) {
        char *p = strtok(text, " |\n");
        uint64_t iseq = strtoull(p, NULL, 10);
        if (!source_read(&memory, iseq + RUBY_ISEQ_BODY, &body, sizeof body) ||
            !source_read(&memory, body + place.lines, &lines, sizeof lines))
            return 1;
        printf("%s |", p);
        for (p = strtok(NULL, " |\n"); p; p = strtok(NULL, " |\n")) {
            uint32_t at = (uint32_t)atoi(p);
            printf(" %u:%u", at, ruby_line(&memory, &lines, place.line_size, at));
        }
        puts("");
    }
    return 0;
}
