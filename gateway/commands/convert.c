/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is read is a capture (capture_file.h): each request in it is decoded, and written in the format asked
 * for. A request that is already in it goes over as it is.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gateway/commands/capture_file.h"
#include "gateway/commands/command.h"
#include "proto/base/clock.h"
#include "proto/base/intern.h"
#include "proto/base/macros.h"
#include "proto/coding/coding.h"
#include "proto/convert/formats.h"
#include "proto/pprof/pprof.h"

#define OUT_MAX        (1u << 30) /* bytes of one request, written */
#define NAME_MAX_BYTES 4096

static const struct settings_word formats[] = {
#define FORMAT_WORD(name, word) {word, CONVERT_##name},
    CONVERT_FORMATS(FORMAT_WORD)
#undef FORMAT_WORD
        {NULL}};

static const struct {
    const char *end;
    enum convert_format format;
} names[] = {
    {".speedscope.json", CONVERT_SPEEDSCOPE},
    {".speedscope.json.gz", CONVERT_SPEEDSCOPE},
    {".speedscope", CONVERT_SPEEDSCOPE},
    {".pprof", CONVERT_PPROF},
    {".pprof.gz", CONVERT_PPROF},
    {".pb.gz", CONVERT_PPROF},
    {".otlp", CONVERT_OTLP},
    {".otlp.gz", CONVERT_OTLP},
    {".json", CONVERT_JSON},
    {".json.gz", CONVERT_JSON},
    {".jsonl", CONVERT_JSON},
    {".folded", CONVERT_FOLDED},
    {".collapsed", CONVERT_FOLDED},
    {".folded.gz", CONVERT_FOLDED},
};

struct convert_arguments {
    int to; /* enum convert_format */
};

/* clang-format off */
static const struct settings_row rows[] = {
    {"to", SETTINGS_CHOICE, offsetof(struct convert_arguments, to), .words = formats, .metavar = "FORMAT",
     .want = "a format: pprof, pprof-exact, otlp (protobuf), json, folded or speedscope",
     .doc = "pprof, pprof-exact, otlp (protobuf), json, folded or speedscope; default: as OUT is called, else pprof of OTLP and OTLP of all others"},
};
/* clang-format on */

static const struct settings_section flags = {.rows = rows, .n_rows = ARRAY_LEN(rows)};

static enum convert_format format_of_name(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (bytes_ends(bytes_str(name), names[i].end))
            return names[i].format;
    return CONVERT_UNSAID;
}

/* ---- writing ---------------------------------------------------------------------------------- */

struct converting {
    enum convert_format to;
    char *const *all, *const *all_end; /* the inputs */
    const char *in, *out;
    struct intern
        *written; /* `out` is a folder, and these files in it are ours: two inputs may have one name */
    FILE *file;   /* what comes in pieces goes there; NULL: nothing came yet */
    char path[NAME_MAX_BYTES];  /* its name, but of standard output */
    struct stat was;            /* it, when it was opened */
    enum convert_format pieces; /* of what */
    uint32_t n_requests;
    struct profiles view;
    struct arena scratch;
    struct to_pprof_lost lost;
    uint64_t rejected; /* samples */
    struct error first_rejected;
    struct error *e;
};

/* `path`, or standard output, is a file that is read, too: writing it would be its end. What is no file may
 * be both. */
static bool is_input(const struct converting *c, const char *path)
{
    struct stat in, out;
    int found = strcmp(path, "-") == 0 ? fstat(STDOUT_FILENO, &out) : stat(path, &out);
    if (found < 0 || !S_ISREG(out.st_mode))
        return false;
    for (char *const *name = c->all; name < c->all_end; name++) {
        int r = strcmp(*name, "-") == 0 ? fstat(STDIN_FILENO, &in) : stat(*name, &in);
        if (r == 0 && in.st_dev == out.st_dev && in.st_ino == out.st_ino)
            return true;
    }
    return false;
}

static int open_out(struct converting *c, enum convert_format to)
{
    static const char *const ends[] = {[CONVERT_PPROF] = "pb.gz",
                                       [CONVERT_OTLP] = "otlp",
                                       [CONVERT_JSON] = "json",
                                       [CONVERT_FOLDED] = "folded",
                                       [CONVERT_SPEEDSCOPE] = "speedscope.json",
                                       [CONVERT_PPROF_EXACT] = "pb.gz"};
    char number[16] = "";
    const char *slash = strrchr(c->in, '/'), *base = slash ? slash + 1 : c->in;
    if (strcmp(c->out, "-") == 0) {
        if (is_input(c, c->out))
            return error_set(c->e, -EEXIST, "standard output is read, too: it is not written over");
        c->file = stdout;
        return 0;
    }
    if (c->n_requests > 1)
        snprintf(number, sizeof number, ".%u", c->n_requests);
    if (c->written)
        snprintf(c->path, sizeof c->path, "%s/%.*s%s.%s", c->out, (int)strcspn(base, "."), base, number,
                 ends[to]);
    else
        snprintf(c->path, sizeof c->path, "%s", c->out);
    uint32_t n = c->written ? c->written->n : 0;
    if (c->written && intern_add(c->written, bytes_str(c->path)) != n)
        return error_set(c->e, -EEXIST, "%s: %s is written already, of another file of that name", c->in,
                         c->path);
    if (is_input(c, c->path))
        return error_set(c->e, -EEXIST, "%s is read, too: it is not written over", c->path);
    c->file = fopen(c->path, !c->written && c->n_requests > 1 ? "ae" : "we");
    if (!c->file || fstat(fileno(c->file), &c->was) < 0)
        return error_set(c->e, -errno, "cannot write %s: %s", c->path, strerror(errno));
    return 0;
}

static bool is_it(const struct stat *was, const struct stat *is)
{
    return S_ISREG(is->st_mode) && is->st_dev == was->st_dev && is->st_ino == was->st_ino;
}

/* Half a profile is none: a file is again as long as it was, and goes if that is nothing, but for one that is
 * known by another name (a symbolic link). Standard output is whoever's opened it. */
static void take_back(const struct converting *c)
{
    struct stat is;
    if (c->was.st_size == 0 && lstat(c->path, &is) == 0 && is_it(&c->was, &is))
        unlink(c->path);
    else if (stat(c->path, &is) == 0 && is_it(&c->was, &is) && truncate(c->path, c->was.st_size) < 0)
        error_prefix(c->e, 0, "%s has half of it: ", c->path);
}

static int put_piece(void *context, struct bytes piece)
{
    struct converting *c = context;
    int r = c->file ? 0 : open_out(c, c->pieces);
    if (r < 0 || fwrite(piece.p, 1, piece.n, c->file) == piece.n)
        return r;
    return error_set(c->e, -EIO, "cannot write %s: %s", c->out, strerror(errno));
}

/* After the last piece. `r`: how it went. */
static int close_out(struct converting *c, int r)
{
    FILE *file = take_ptr(c->file);
    if (!file)
        return r;
    if ((file == stdout ? fflush(file) : fclose(file)) != 0 && r == 0)
        r = error_set(c->e, -EIO, "cannot write %s: %s", c->out, strerror(errno));
    if (r < 0 && file != stdout)
        take_back(c);
    return r;
}

static int put(struct converting *c, enum convert_format to, struct bytes body)
{
    int r = open_out(c, to);
    return close_out(c, r < 0 ? r : put_piece(c, body));
}

#define GZIP_LEVEL 4

static int put_gzip(struct converting *c, enum convert_format to, struct bytes body)
{
    struct coding_encoder *encoder = coding_encoder_new(CODING_GZIP, GZIP_LEVEL);
    cleanup(buffer_release) struct buffer packed = BUFFER_INIT(OUT_MAX);
    int r = encoder ? coding_encode(encoder, body, &packed) : -ENOMEM;
    r = r < 0 ? error_set(c->e, r, "out of memory") : put(c, to, buffer_bytes(&packed));
    coding_encoder_free(encoder);
    return r;
}

static int put_request(struct converting *c, enum convert_format to, struct bytes body)
{
    return bytes_ends(bytes_str(c->out), ".gz") ? put_gzip(c, to, body) : put(c, to, body);
}

/* How it went that a request was written, in words. */
static int explain(const struct converting *c, const char *place, enum convert_format to, int r)
{
    if (r == TO_PPROF_TYPES && convert_is_pprof(to))
        return error_set(c->e, -EINVAL, "%s: more than %u kinds of profiles", place, PPROF_TYPES_MAX);
    if (r != 0 && c->e->text[0] == 0) /* not put_piece's */
        return error_set(c->e, -ENOMEM, "%s: out of memory, or longer than 1 GiB", place);
    return r;
}

static int put_pprof(struct converting *c, enum convert_format to, const struct capture_request *request)
{
    c->pieces = to;
    c->e->text[0] = 0;
    int r = convert_pack(&c->view, request->body, to, &c->scratch, NULL, OUT_MAX, put_piece, c, &c->lost);
    return close_out(c, explain(c, request->place, to, r));
}

/* ---- converting ------------------------------------------------------------------------------- */

static int convert_request(void *context, const struct capture_request *request)
{
    struct converting *c = context;
    struct buffer out = BUFFER_INIT(OUT_MAX);
    static const struct profiles_limits limits = {.column_bytes = (size_t)4 << 30, .depth = 64};
    enum convert_format to = c->to ? c->to : request->was_other ? CONVERT_OTLP : CONVERT_PPROF;
    c->n_requests++;
    if (request->body.n == 0)
        return error_set(c->e, -EINVAL,
                         request->was_json ? "%s: there is no profile in it, as resourceProfiles has them"
                                           : "%s is empty: there is no profile in it",
                         request->place);
    if (c->n_requests > 1 && !c->written && to != CONVERT_JSON && to != CONVERT_FOLDED)
        return error_set(c->e, -EINVAL, "%s has more than one request: let OUT be a folder", c->in);
    /* What was just made is a request as it stands: only who takes it apart needs to look into it. */
    if (request->was_other && !request->was_kept && to == CONVERT_OTLP)
        return put_request(c, to, request->body);
    int r = profiles_decode_as(&c->view, request->body, request->layout, &limits, c->e);
    if (r != 0)
        return error_prefix(c->e, r < 0 ? r : -EBADMSG, "%s: ", request->place);
    if (request->pages)
        mapping_give_back(request->pages); /* of it strings are looked at again */
    if (c->view.rejected.samples && c->rejected == 0)
        c->first_rejected = c->view.rejected.first;
    c->rejected += c->view.rejected.samples;
    if (convert_is_pprof(to) && c->view.profile.n == 0)
        return error_set(c->e, -EINVAL, "%s: there is no profile in it", request->place);
    if (convert_is_pprof(to))
        return put_pprof(c, to, request);
    c->e->text[0] = 0;
    r = explain(c, request->place, to,
                convert_write(&c->view, request->body, to, &c->scratch, NULL, &out, &c->lost));
    /* What was read is not needed any more, and packing takes memory, too. */
    profiles_release(&c->view);
    if (profiles_init(&c->view, NULL) < 0 && r == 0)
        r = error_set(c->e, -ENOMEM, "out of memory");
    r = r != 0 ? r : put_request(c, to, buffer_bytes(&out));
    buffer_release(&out);
    return r;
}

static void say_lost(const struct converting *c)
{
    const struct to_pprof_lost *lost = &c->lost;
    if (lost->moments)
        fprintf(stderr, "%s: pprof has no timestamps: those of %llu samples are added up\n", c->in,
                (unsigned long long)lost->moments);
    if (lost->attributes)
        fprintf(stderr, "%s: pprof has no such labels: %llu attributes are left out\n", c->in,
                (unsigned long long)lost->attributes);
    if (lost->lines)
        fprintf(stderr, "%s: pprof has no lines without a function: %llu are left out\n", c->in,
                (unsigned long long)lost->lines);
    if (c->rejected)
        fprintf(stderr, "%s: %llu samples are refused by whoever reads them: %s\n", c->in,
                (unsigned long long)c->rejected, c->first_rejected.text);
}

/* What is common to all files is set in *c. */
static int convert(struct converting *c, const char *in)
{
    struct converting one = *c;
    one.in = in;
    one.pieces = CONVERT_OTLP;
    const bool as_it_is =
        (c->to == CONVERT_OTLP || c->to == CONVERT_UNSAID) && !bytes_ends(bytes_str(c->out), ".gz");
    int r = profiles_init(&one.view, NULL);
    if (r < 0)
        r = error_set(c->e, r, "out of memory");
    else
        r = capture_file_pieces(in, convert_request, as_it_is ? put_piece : NULL, &one, c->e);
    r = close_out(&one, r);
    if (r == 0)
        say_lost(&one);
    profiles_release(&one.view);
    arena_release(&one.scratch);
    return r;
}

#define SAY_EVERY (NSEC_PER_SEC / 2)

/* To a person who waits: how many of the files are done. */
static void say_progress(int done, int all, uint64_t *said)
{
    uint64_t now = clock_monotonic();
    if (done == 0)
        *said = now;
    if (!isatty(STDERR_FILENO) || now - *said < SAY_EVERY)
        return;
    fprintf(stderr, "profgate convert: %d of %d files\n", done, all);
    *said = now;
}

static int run(int argc, char **argv)
{
    struct convert_arguments arguments = {0};
    struct error e = {""};
    struct stat st;
    int rest = 0, code = EXIT_DONE;
    int r = settings_flags(&flags, argc, argv, &arguments, NULL, &rest, &e);
    if (r == 0 && argc - rest < 2)
        r = error_set(&e, -EINVAL, "name what is converted, and into what");
    const char *out = argc - rest > 0 ? argv[argc - 1] : "";
    bool is_folder = stat(out, &st) == 0 && S_ISDIR(st.st_mode);
    if (r == 0 && argc - rest > 2 && !is_folder)
        r = error_set(&e, -EINVAL, "%s is no folder, and there are several files to convert", out);
    if (r < 0) {
        fprintf(stderr, "profgate convert: %s\n", e.text);
        return EXIT_USAGE;
    }
    cleanup(intern_release) struct intern written = INTERN_INIT(NULL);
    struct converting common = {
        .to = arguments.to ? (enum convert_format)arguments.to : format_of_name(out),
        .all = argv + rest,
        .all_end = argv + argc - 1,
        .out = out,
        .written = is_folder ? &written : NULL,
        .e = &e,
    };
    uint64_t said = 0;
    for (int i = rest; i < argc - 1; i++) {
        say_progress(i - rest, argc - 1 - rest, &said);
        int failed = convert(&common, argv[i]);
        if (failed < 0) {
            fprintf(stderr, "profgate convert: %s\n", e.text);
            code = max_of(code, exit_of_work(failed)); /* the others go on */
        }
    }
    return code;
}

const struct settings_command convert_command = {
    .name = "profgate convert",
    .usage = "[--to FORMAT] IN... OUT",
    .doc = "profiles in one format as another: pprof, OTLP, folded stacks, perf script, speedscope",
    .text =
        "Reads pprof (also the texts of `debug=1` and what gperftools writes), OTLP protobuf, OTLP/JSON, folded stacks\n"
        "or what `perf script` printed, plain, gzip or zstd, and writes what OUT's name or --to says: nothing\n"
        "that pprof has is lost in OTLP, protobuf or JSON. pprof has samples, their stacks, values and labels, and\n"
        "no place for scopes, ids, frame types and timestamps; pprof-exact has the request along in a field that\n"
        "pprof's readers pass over, and is that request again for profgate. - is standard input or output; OUT may be a folder.\n"
        "Of many files a terminal is told how many are done. 1: something could not be converted;\n"
        "2: it could not even be opened.\n",
    .flags = &flags,
    .run = run,
};
