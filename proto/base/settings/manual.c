/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/settings/manual.h"

/* A backslash begins an escape, a minus alone is a hyphen, and a dot or apostrophe that begins a line is a
 * request (groff(7)). */
static void put(struct bytes text, FILE *to)
{
    for (size_t i = 0; i < text.n; i++) {
        bool first = i == 0 || text.p[i - 1] == '\n';
        if (first && (text.p[i] == '.' || text.p[i] == '\''))
            fputs("\\&", to);
        if (text.p[i] == '\\')
            fputs("\\e", to);
        else if (text.p[i] == '-')
            fputs("\\-", to);
        else
            putc(text.p[i], to);
    }
}

static void put_str(const char *text, FILE *to)
{
    put(bytes_str(text), to);
}

static void put_head(const struct settings_manual *m, const char *name, const char *doc, FILE *to)
{
    fprintf(to, ".TH %s %s \"\" \"%s %s\"\n.SH NAME\n", m->title, m->section, name, m->version);
    put_str(name, to);
    fputs(" \\- ", to);
    put_str(doc, to);
    putc('\n', to);
}

static void put_see(const struct settings_manual *m, FILE *to)
{
    if (!m->see)
        return;
    fputs(".SH SEE ALSO\n", to);
    put_str(m->see, to);
    putc('\n', to);
}

static void put_call(const struct settings_command *c, FILE *to)
{
    fputs("\\fB", to);
    put_str(c->name, to);
    fputs("\\fR ", to);
    put_str(c->usage, to);
    putc('\n', to);
}

static void put_flags(const struct settings_section *flags, FILE *to)
{
    for (uint32_t i = 0; flags && i < flags->n_rows; i++) {
        const struct settings_row *row = &flags->rows[i];
        if (!row->key)
            continue;
        fputs(".TP\n\\fB\\-\\-", to);
        put_str(row->key, to);
        fputs("\\fR", to);
        if (row->metavar) {
            fputs(" \\fI", to);
            put_str(row->metavar, to);
            fputs("\\fR", to);
        }
        putc('\n', to);
        put_str(row->doc, to);
        if (row->variable) {
            fputs(". Variable: ", to);
            put_str(row->variable, to);
        }
        putc('\n', to);
    }
}

/* A command that has commands is said by these. */
static void put_commands(const struct settings_command *c, FILE *to)
{
    for (const struct settings_command *const *i = c->commands; i && *i; i++) {
        if ((*i)->commands) {
            put_commands(*i, to); /* as deep as our own tables */
            continue;
        }
        fputs(".SS ", to);
        put_call(*i, to);
        put_str((*i)->text ? (*i)->text : (*i)->doc, to);
        fputs((*i)->text ? "" : ".\n", to);
        put_flags((*i)->flags, to);
    }
}

void settings_manual(const struct settings_manual *m, const struct settings_command *program, FILE *to)
{
    put_head(m, program->name, program->doc, to);
    fputs(".SH SYNOPSIS\n", to);
    put_call(program, to);
    fputs(".SH DESCRIPTION\n", to);
    put_str(program->text, to);
    if (program->commands) {
        fputs(".SH COMMANDS\n", to);
        put_commands(program, to);
    }
    if (program->flags) {
        fputs(".SH OPTIONS\n", to);
        put_flags(program->flags, to);
    }
    fputs(".SH EXIT STATUS\n.nf\n", to);
    put_str(program->exits, to);
    fputs(".fi\n", to);
    put_see(m, to);
}

void settings_manual_text(const struct settings_manual *m, const char *name, const char *doc,
                          struct bytes text, FILE *to)
{
    put_head(m, name, doc, to);
    fputs(".SH DESCRIPTION\n.nf\n", to);
    put(text, to);
    fputs(".fi\n", to);
    put_see(m, to);
}
