/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profgate: finds the subcommand and runs it.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "gateway/commands/command.h"
#include "gateway/commands/rules.h"
#include "gateway/top/command_top.h"
#include "proto/base/macros.h"

static const struct {
    const char *name, *usage, *doc;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"serve", "[--config FILE] [--listen ADDR]...",
     "the gateway; with no configuration it starts on embedded defaults", command_serve},
    {"validate", "[--reach] CONFIG...",
     "say everything that is wrong with configurations, and with the files that they name", command_validate},
    {"rules", "check|test|list|explain|from-connector [FILE]...",
     "check and test rule files, list what they count, say which rule takes a stack, convert a connector's configuration",
     command_rules},
    {"count", "[--rules FILE]... FILE...", "classify captured requests offline and print the counters",
     command_count},
    {"top", "[--url URL]", "a live table of a running gateway's counters", command_top},
};

static void help(FILE *to)
{
    fprintf(to, "profgate %s: an OTLP Profiles gateway that turns profiles into metrics\n\n",
            PROFGATE_VERSION);
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        fprintf(to, "  profgate %-8s %-36s %s\n", commands[i].name, commands[i].usage, commands[i].doc);
    fprintf(to,
            "\nprofgate COMMAND --help says more. Exit codes: 0 done, 1 the answer is no, 2 wrong usage or "
            "configuration,\n3 the environment refuses.\n");
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        if (strcmp(name, commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    if (strcmp(name, "--version") == 0) {
        printf("profgate %s\n", PROFGATE_VERSION);
        return EXIT_DONE;
    }
    bool asked = strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0;
    if (!asked && name[0])
        fprintf(stderr, "profgate: there is no command %s\n\n", name);
    help(asked ? stdout : stderr);
    return asked ? EXIT_DONE : EXIT_USAGE;
}
