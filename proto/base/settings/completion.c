/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All three scripts work alike. They go through the words that are there and keep in `at` the command that
 * these name, in full ("profgate rules check"): a word that makes no longer command of it is an argument.
 * Then: behind a flag that takes a value, its words or files; behind a minus, the flags of that command; else
 * its commands, or files if it has none.
 */
#include "proto/base/settings/completion.h"

const struct settings_word completion_shells[] = {
    {"bash", COMPLETION_BASH}, {"zsh", COMPLETION_ZSH}, {"fish", COMPLETION_FISH}, {NULL}};

struct script {
    const struct settings_command *program;
    FILE *to;
};

typedef void per_command(struct script *s, const struct settings_command *c);
typedef void per_flag(struct script *s, const struct settings_command *c, const struct settings_row *row);

/* The command and all below it, of which our own tables are two deep. */
static void each_command(struct script *s, const struct settings_command *c, per_command *visit)
{
    visit(s, c);
    for (const struct settings_command *const *i = c->commands; i && *i; i++)
        each_command(s, *i, visit);
}

static void each_flag(struct script *s, const struct settings_command *c, per_flag *visit)
{
    for (uint32_t i = 0; c->flags && i < c->flags->n_rows; i++)
        if (c->flags->rows[i].key)
            visit(s, c, &c->flags->rows[i]);
}

/* Within single quotes: an apostrophe ends them, stands by itself and opens them again; fish knows no other
 * escapes in them than \\ and \', which the others take as they stand. */
static void quote(struct script *s, const char *text)
{
    putc('\'', s->to);
    for (; *text; text++)
        if (*text == '\'')
            fputs("'\\''", s->to);
        else
            putc(*text, s->to);
    putc('\'', s->to);
}

static void put_words(struct script *s, const struct settings_row *row)
{
    for (const struct settings_word *w = row->words; w->word; w++)
        fprintf(s->to, "%s%s", w == row->words ? "" : " ", w->word);
}

/* ---- what bash and zsh have alike */

static void put_name(struct script *s, const struct settings_command *c)
{
    if (c != s->program)
        fprintf(s->to, " | '%s'", c->name);
}

static void put_walk(struct script *s, const char *word)
{
    fprintf(s->to,
            "        case \"$at %s\" in\n"
            "        ''",
            word);
    each_command(s, s->program, put_name);
    fprintf(s->to,
            ") at+=\" %s\" ;;\n"
            "        esac\n"
            "    done\n",
            word);
}

/* ---- bash */

static void bash_value(struct script *s, const struct settings_command *c, const struct settings_row *row)
{
    if (!row->metavar)
        return;
    fprintf(s->to, "    '%s --%s') ", c->name, row->key);
    if (row->words) {
        fputs("COMPREPLY=($(compgen -W '", s->to);
        put_words(s, row);
        fputs("' -- \"$cur\")); ", s->to);
    }
    fputs("return ;;\n", s->to);
}

static void bash_values(struct script *s, const struct settings_command *c)
{
    each_flag(s, c, bash_value);
}

static void bash_flag(struct script *s, const struct settings_command *c, const struct settings_row *row)
{
    fprintf(s->to, " --%s", row->key);
}

static void bash_command(struct script *s, const struct settings_command *c)
{
    fprintf(s->to, "    '%s') flags='--help", c->name);
    each_flag(s, c, bash_flag);
    fputs("' commands='", s->to);
    for (const struct settings_command *const *i = c->commands; i && *i; i++)
        fprintf(s->to, "%s%s", i == c->commands ? "" : " ", settings_command_word(*i));
    fputs("' ;;\n", s->to);
}

static void put_bash(struct script *s)
{
    const char *name = s->program->name;
    fprintf(s->to,
            "# %s in bash: source this, or put it into /usr/share/bash-completion/completions/%s\n"
            "_%s()\n"
            "{\n"
            "    local cur=${COMP_WORDS[COMP_CWORD]} at=%s flags commands i\n"
            "    for ((i = 1; i < COMP_CWORD; i++)); do\n",
            name, name, name, name);
    put_walk(s, "${COMP_WORDS[i]}");
    fputs("    case \"$at ${COMP_WORDS[COMP_CWORD-1]}\" in\n", s->to);
    each_command(s, s->program, bash_values);
    fputs("    esac\n"
          "    case \"$at\" in\n",
          s->to);
    each_command(s, s->program, bash_command);
    fprintf(s->to,
            "    esac\n"
            "    [[ $cur == -* ]] && commands=$flags\n"
            "    COMPREPLY=($(compgen -W \"$commands\" -- \"$cur\"))\n"
            "}\n"
            "complete -o default -F _%s %s\n",
            name, name);
}

/* ---- zsh */

static void zsh_value(struct script *s, const struct settings_command *c, const struct settings_row *row)
{
    if (!row->metavar)
        return;
    fprintf(s->to, "    '%s --%s') ", c->name, row->key);
    if (row->words) {
        fputs("compadd -- ", s->to);
        put_words(s, row);
    } else {
        fputs("_files", s->to);
    }
    fputs("; return ;;\n", s->to);
}

static void zsh_values(struct script *s, const struct settings_command *c)
{
    each_flag(s, c, zsh_value);
}

/* In _describe's items a colon stands between what is typed and what it means. */
static void zsh_item(struct script *s, const char *dashes, const char *name, const char *doc)
{
    fprintf(s->to, " %s%s:", dashes, name);
    quote(s, doc);
}

static void zsh_flag(struct script *s, const struct settings_command *c, const struct settings_row *row)
{
    zsh_item(s, "--", row->key, row->doc);
}

static void zsh_command(struct script *s, const struct settings_command *c)
{
    fprintf(s->to, "    '%s') flags=(", c->name);
    zsh_item(s, "--", "help", "say what it does");
    each_flag(s, c, zsh_flag);
    fputs(") commands=(", s->to);
    for (const struct settings_command *const *i = c->commands; i && *i; i++)
        zsh_item(s, "", settings_command_word(*i), (*i)->doc);
    fputs(") ;;\n", s->to);
}

static void put_zsh(struct script *s)
{
    const char *name = s->program->name;
    fprintf(s->to,
            "#compdef %s\n"
            "# %s in zsh: put this as _%s into a folder of $fpath, or source it after compinit\n"
            "_%s()\n"
            "{\n"
            "    local at=%s i\n"
            "    local -a flags commands\n"
            "    for ((i = 2; i < CURRENT; i++)); do\n",
            name, name, name, name, name);
    put_walk(s, "$words[i]");
    fputs("    case \"$at $words[CURRENT-1]\" in\n", s->to);
    each_command(s, s->program, zsh_values);
    fputs("    esac\n"
          "    case \"$at\" in\n",
          s->to);
    each_command(s, s->program, zsh_command);
    fprintf(s->to,
            "    esac\n"
            "    if [[ $words[CURRENT] == -* ]]; then _describe -o flag flags\n"
            "    elif (( $#commands )); then _describe command commands\n"
            "    else _files; fi\n"
            "}\n"
            "if [[ $funcstack[1] == _%s ]]; then _%s; else compdef _%s %s; fi\n",
            name, name, name, name);
}

/* ---- fish */

static void fish_name(struct script *s, const struct settings_command *c)
{
    if (c != s->program)
        fprintf(s->to, " '%s'", c->name);
}

static void fish_line(struct script *s, const struct settings_command *c)
{
    fprintf(s->to, "complete -c %s -n \"__%s_at '%s'\"", s->program->name, s->program->name, c->name);
}

static void fish_doc(struct script *s, const char *doc)
{
    fputs(" -d ", s->to);
    quote(s, doc);
    putc('\n', s->to);
}

static void fish_flag(struct script *s, const struct settings_command *c, const struct settings_row *row)
{
    fish_line(s, c);
    fprintf(s->to, " -l %s", row->key);
    if (row->words) {
        fputs(" -x -a '", s->to);
        put_words(s, row);
        putc('\'', s->to);
    } else if (row->metavar) {
        fputs(" -r", s->to);
    }
    fish_doc(s, row->doc);
}

static void fish_command(struct script *s, const struct settings_command *c)
{
    for (const struct settings_command *const *i = c->commands; i && *i; i++) {
        fish_line(s, c);
        fprintf(s->to, " -f -a %s", settings_command_word(*i));
        fish_doc(s, (*i)->doc);
    }
    fish_line(s, c);
    fputs(" -l help", s->to);
    fish_doc(s, "say what it does");
    each_flag(s, c, fish_flag);
}

static void put_fish(struct script *s)
{
    const char *name = s->program->name;
    fprintf(s->to,
            "# %s in fish: put this as %s.fish into ~/.config/fish/completions\n"
            "function __%s_at\n"
            "    set -l at %s\n"
            "    for word in (commandline -opc)[2..]\n"
            "        switch \"$at $word\"\n"
            "            case ''",
            name, name, name, name);
    each_command(s, s->program, fish_name);
    fputs("\n"
          "                set at \"$at $word\"\n"
          "        end\n"
          "    end\n"
          "    test \"$at\" = \"$argv[1]\"\n"
          "end\n",
          s->to);
    each_command(s, s->program, fish_command);
}

void settings_completion(const struct settings_command *program, enum completion_shell shell, FILE *to)
{
    static void (*const puts_it[])(struct script *) = {
        [COMPLETION_BASH] = put_bash, [COMPLETION_ZSH] = put_zsh, [COMPLETION_FISH] = put_fish};
    struct script s = {program, to};
    puts_it[shell](&s);
}
