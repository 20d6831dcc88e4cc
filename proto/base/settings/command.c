/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/settings/command.h"

#include <string.h>

#include "proto/base/macros.h"
#include "proto/base/nearest.h"

const char *settings_command_word(const struct settings_command *c)
{
    const char *blank = strrchr(c->name, ' ');
    return blank ? blank + 1 : c->name;
}

static const struct settings_command *one_of(const struct settings_command *c, const char *word)
{
    for (const struct settings_command *const *i = c->commands; i && *i; i++)
        if (strcmp(settings_command_word(*i), word) == 0)
            return *i;
    return NULL;
}

const struct settings_command *settings_command_find(const struct settings_command *c, int argc, char **argv,
                                                     int *ret_used)
{
    const struct settings_command *next;
    int used = 0;
    while (used + 1 < argc && (next = one_of(c, argv[used + 1]))) {
        c = next;
        used++;
    }
    *ret_used = used;
    return c;
}

int settings_command_missing(const struct settings_command *c, const char *word)
{
    struct nearest near;
    nearest_start(&near, bytes_str(word));
    for (const struct settings_command *const *i = c->commands; i && *i; i++)
        nearest_offer(&near, bytes_str(settings_command_word(*i)));
    fprintf(stderr, "%s: there is no command %s%s (%s --help lists them)\n", c->name, word,
            nearest_ask(near.best).s, c->name);
    return SETTINGS_WRONG_USAGE;
}

int settings_command_run(const struct settings_command *c, int argc, char **argv)
{
    int used;
    c = settings_command_find(c, argc, argv, &used);
    argc -= used;
    argv += used;
    bool asked = c->run ? settings_asks_help(argc, argv) : argc > 1 && settings_is_help(argv[1]);
    if (c->run && !asked)
        return c->run(argc, argv);
    if (argc > 1 && !asked)
        return settings_command_missing(c, argv[1]);
    settings_command_help(c, asked ? stdout : stderr);
    return asked ? 0 : SETTINGS_WRONG_USAGE;
}

/* Where the second column begins: two blanks, the widest of the first, two blanks. */
static int column(const struct settings_command *c)
{
    size_t widest = 0;
    for (const struct settings_command *const *i = c->commands; i && *i; i++)
        widest = max_of(widest, strlen(settings_command_word(*i)));
    return (int)widest;
}

void settings_command_help(const struct settings_command *c, FILE *to)
{
    fprintf(to, "usage: %s %s\n\n", c->name, c->usage);
    if (c->text)
        fprintf(to, "%s\n", c->text);
    if (c->commands) {
        int width = column(c);
        fputs("commands:\n", to);
        for (const struct settings_command *const *i = c->commands; *i; i++)
            fprintf(to, "  %-*s  %s\n", width, settings_command_word(*i), (*i)->doc);
        fprintf(to, "\n%s COMMAND --help says more.\n", c->name);
    }
    if (c->flags && c->flags->n_rows > 0) {
        fputs("flags:\n", to);
        settings_flags_help(c->flags, to);
    }
    if (c->exits)
        fprintf(to, "\nExit codes:\n%s", c->exits);
}
