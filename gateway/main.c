/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profgate: finds the subcommand and runs it. Those about the program itself are here.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "gateway/commands/command.h"
#include "gateway/config/config.h"
#include "gateway/export/kinds.h"
#include "gateway/top/command_top.h"
#include "proto/base/settings/completion.h"
#include "proto/base/settings/manual.h"

static int run_help(int argc, char **argv);
static int run_version(int argc, char **argv);
static int run_completion(int argc, char **argv);
static int run_manual(int argc, char **argv);

static const struct settings_command
    help_command = {.name = "profgate help",
                    .usage = "[COMMAND]...",
                    .doc = "what --help of a command says: profgate help rules check",
                    .run = run_help},
    version_command = {.name = "profgate version",
                       .usage = "",
                       .doc = "print the version",
                       .run = run_version},
    completion_command = {.name = "profgate completion",
                          .usage = "bash|zsh|fish",
                          .doc = "print a script by which a shell completes commands and flags",
                          .text =
                              "Prints a script for the shell to read: source <(profgate completion bash)\n",
                          .run = run_completion},
    manual_command = {.name = "profgate manual",
                      .usage = "[config]",
                      .doc = "print profgate(1), or profgate.yaml(5), as a page for man",
                      .text = "Prints a manual page: man -l <(profgate manual config)\n",
                      .run = run_manual};

static const struct settings_command *const commands[] = {&serve_command,   &validate_command,
                                                          &rules_command,   &count_command,
                                                          &convert_command, &conformance_command,
                                                          &replay_command,  &look_command,
                                                          &top_command,     &help_command,
                                                          &version_command, &completion_command,
                                                          &manual_command,  NULL};

static const struct settings_command profgate = {
    .name = "profgate",
    .usage = "COMMAND [ARGUMENT]...",
    .doc = "an OTLP Profiles gateway that turns profiles into metrics",
    .text = "profgate " PROFGATE_VERSION ": an OTLP Profiles gateway that turns profiles into metrics.\n",
    .commands = commands,
    .exits = "  0  done\n"
             "  1  the answer is no\n"
             "  2  wrong usage or configuration\n"
             "  3  the environment refuses\n",
};

/* Whether there is one word at most; else that is told. */
static bool takes_one(const struct settings_command *c, int argc, char **argv)
{
    if (argc > 2)
        fprintf(stderr, "%s: %s: not expected here\n", c->name, argv[2]);
    return argc <= 2;
}

static int run_help(int argc, char **argv)
{
    int used;
    const struct settings_command *c = settings_command_find(&profgate, argc, argv, &used);
    if (used + 1 < argc)
        return settings_command_missing(c, argv[used + 1]);
    settings_command_help(c, stdout);
    return EXIT_DONE;
}

static int run_version(int argc, char **argv)
{
    puts("profgate " PROFGATE_VERSION);
    return EXIT_DONE;
}

static int run_completion(int argc, char **argv)
{
    if (!takes_one(&completion_command, argc, argv))
        return EXIT_USAGE;
    for (const struct settings_word *w = completion_shells; argc == 2 && w->word; w++)
        if (strcmp(w->word, argv[1]) == 0) {
            settings_completion(&profgate, (enum completion_shell)w->value, stdout);
            return EXIT_DONE;
        }
    fprintf(stderr, "profgate completion: name a shell: bash, zsh or fish\n");
    return EXIT_USAGE;
}

static int print_config_manual(const struct settings_manual *page)
{
    struct config *c = config_new(export_kinds);
    struct buffer text = BUFFER_INIT(0);
    int r = c ? config_reference(c, &text) : -1;
    if (r == 0)
        settings_manual_text(page, "profgate.yaml", "the configuration of profgate serve",
                             buffer_bytes(&text), stdout);
    buffer_release(&text);
    config_free(c);
    return r == 0 ? EXIT_DONE : EXIT_ENVIRONMENT;
}

static int run_manual(int argc, char **argv)
{
    const struct settings_manual program = {"PROFGATE", "1", PROFGATE_VERSION,
                                            "profgate.yaml(5), profsend(8)"},
                                 config = {"PROFGATE.YAML", "5", PROFGATE_VERSION, "profgate(1)"};
    if (!takes_one(&manual_command, argc, argv))
        return EXIT_USAGE;
    if (argc == 2 && strcmp(argv[1], "config") == 0)
        return print_config_manual(&config);
    if (argc == 2) {
        fprintf(stderr, "profgate manual: there is no page %s; there is config\n", argv[1]);
        return EXIT_USAGE;
    }
    settings_manual(&program, &profgate, stdout);
    return EXIT_DONE;
}

int main(int argc, char **argv)
{
    bool is_version = argc > 1 && strcmp(argv[1], "--version") == 0;
    int code = is_version ? run_version(1, argv) : settings_command_run(&profgate, argc, argv);
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    fprintf(stderr, "profgate: cannot write to standard output: %s\n", strerror(errno));
    return code ? code : EXIT_ENVIRONMENT;
}
