/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/top/stacks.h"

#include <stdio.h>
#include <string.h>

#include "gateway/top/flame.h"
#include "proto/base/macros.h"
#include "tests/lib/unit.h"

/* main calls work (6 s) and read (2 s, kernel), and takes 2 s itself. */
static const char flame[] =
    "{\"window\":{\"from\":0,\"to\":1,\"level\":\"fine\"},\"unit\":\"nanoseconds\",\"seen\":190,\"kept\":190,\"p\":1,"
    "\"strings\":[\"\",\"main\",\"app\",\"read\",\"kernel\",\"native\",\"long/path/to.work\"],"
    "\"frame\":{\"name\":[1,3,6],\"lib\":[2,0,2],\"file\":[0,0,0],\"kind\":[5,4,5],\"inlined\":[0,0,0]},"
    "\"node\":{\"parent\":[-1,0,1,1],\"frame\":[-1,0,1,2],\"self\":[0,2e9,2e9,6e9],\"total\":[1e10,1e10,2e9,6e9],"
    "\"more\":[0,0,0,0]}}";

static void read_flame(struct stacks *s)
{
    ck_assert_int_eq(stacks_read(bytes_str(flame), "node", s), 0);
    ck_assert_uint_eq(s->n, 4);
}

/* The lines a graph draws, without looks. */
static void draw(const struct flame *f, bool color, struct buffer *out)
{
    const struct line_style style = {.width = f->width, .color = color};
    cleanup(line_release) struct line l = {.style = &style, .out = out};
    ck_assert_int_eq(flame_draw(f, &l), 0);
    ck_assert_int_eq(buffer_add(out, "", 1), 0);
}

UNIT(a_tree_is_read_widest_child_first)
{
    cleanup(stacks_release) struct stacks s;
    read_flame(&s);
    ck_assert_int_eq(s.first[0], 1);
    ck_assert_int_eq(s.first[1], 3);
    ck_assert_int_eq(s.next[3], 2);
    ck_assert_int_eq(s.next[2], -1);
    ck_assert(bytes_is(s.names[2].name, "read") && s.names[2].kind == STACKS_KERNEL);
    ck_assert(bytes_is(s.names[3].lib, "app") && s.names[3].kind == STACKS_NATIVE);
    ck_assert_double_eq_tol(stacks_share(&s, 3), 0.6, 1e-9);
    ck_assert_uint_eq(stacks_find(&s, s.mark[2]), 2);
    ck_assert_uint_eq(stacks_find(&s, 12345), 0);
}

UNIT(frames_are_as_wide_as_their_share)
{
    struct stacks s;
    struct buffer out = {0};
    read_flame(&s);
    draw(&(struct flame){.stacks = &s, .width = 25, .height = 4}, false, &out);
    ck_assert_str_eq((char *)out.p, "|all\n|main\n|to.work       |re…\n\n");
    out.n = 0;
    draw(&(struct flame){.stacks = &s, .width = 20, .height = 3, .root = 2, .up = true}, false, &out);
    ck_assert_str_eq((char *)out.p, "|read\n|main\n|all\n");
    out.n = 0;
    /* One line is room for the cursor's row only; what is not searched for is dim, the cursor bright. */
    const struct flame f = {
        .stacks = &s, .width = 40, .height = 2, .cursor = 3, .has_cursor = true, .search = BYTES_LIT("READ")};
    draw(&f, true, &out);
    ck_assert_ptr_nonnull(strstr((char *)out.p, "\x1b[1;48;5;231;38;5;16m"));
    ck_assert_ptr_nonnull(strstr((char *)out.p, "48;5;209;38;5;16mread"));
    ck_assert_ptr_null(strstr((char *)out.p, "main"));
    buffer_release(&out);
    stacks_release(&s);
    ck_assert_int_eq(flame_rows(&(struct flame){.stacks = &s, .width = 9}), 0); /* nothing yet */
}

UNIT(arrows_go_to_what_is_beside)
{
    cleanup(stacks_release) struct stacks s;
    read_flame(&s);
    struct flame f = {.stacks = &s, .width = 40, .height = 5};
    ck_assert_int_eq(flame_step(&f, FLAME_PARENT), 0);
    ck_assert_int_eq(flame_step(&f, FLAME_CHILD), 1);
    f.cursor = 3;
    ck_assert_int_eq(flame_step(&f, FLAME_AFTER), 2);
    ck_assert_int_eq(flame_step(&f, FLAME_BEFORE), 3);
    ck_assert_int_eq(flame_step(&f, FLAME_CHILD), 3);
    ck_assert_int_eq(flame_step(&f, FLAME_PARENT), 1);
    ck_assert_int_eq(flame_rows(&f), 3);
}

UNIT(a_difference_is_more_than_chance)
{
    struct stacks s;
    char text[1024];
    for (unsigned kept = 10; kept <= 1000000; kept *= 100000) {
        snprintf(
            text, sizeof text,
            "{\"unit\":\"nanoseconds\",\"a\":{\"total\":100,\"kept\":%u},\"b\":{\"total\":100,\"kept\":%u},"
            "\"strings\":[\"\",\"f\"],\"frame\":{\"name\":[1],\"lib\":[0],\"file\":[0],\"kind\":[0]},"
            "\"node\":{\"parent\":[-1,0],\"frame\":[-1,0],\"self\":[0,10],\"total\":[100,10],\"total_b\":[100,20]}}",
            kept, kept);
        ck_assert_int_eq(stacks_read(bytes_str(text), "node", &s), 0);
        ck_assert_double_eq_tol(stacks_change(&s, 1), kept > 10 ? 1.0 / 3 : 0, 1e-9);
        ck_assert_double_eq_tol(stacks_share(&s, 1), 0.15, 1e-9);
        stacks_release(&s);
    }
}

UNIT(series_and_tables_are_rows)
{
    struct stacks_rows r;
    ck_assert_int_eq(
        stacks_read_series(
            bytes_str(
                "{\"from\":0,\"step\":10000,\"unit\":\"cores\",\"series\":[{\"label\":\"go\",\"values\":"
                "[0.5,0.25]}],\"other\":[1,0]}"),
            &r),
        0);
    ck_assert_uint_eq(r.n, 2);
    ck_assert_uint_eq(r.n_values, 2);
    ck_assert_double_eq_tol(r.rows[0].total, 0.375, 1e-9);
    ck_assert_double_eq_tol(r.total, 0.875, 1e-9);
    ck_assert(bytes_is(r.rows[1].lib, "others"));
    stacks_rows_release(&r);
    ck_assert_int_eq(
        stacks_read_top(
            bytes_str(
                "{\"unit\":\"bytes\",\"kept\":3,\"total\":9,\"rows\":[{\"name\":\"f\",\"lib\":\"l\",\"kind\":"
                "\"go\",\"self\":4,\"total\":-9}]}"),
            &r),
        0);
    ck_assert(r.n == 1 && r.rows[0].kind == STACKS_GO && bytes_is(r.rows[0].lib, "l"));
    ck_assert_double_eq_tol(r.rows[0].self, 4, 1e-9);
    ck_assert_double_eq_tol(r.rows[0].total, 0, 1e-9);
    stacks_rows_release(&r);
}

/* Whatever answers at that URL: what is no such answer is refused, what is wrong in one does no harm. */
UNIT(foreign_answers_do_no_harm)
{
    static const char *const texts[] = {"",
                                        "{",
                                        "[]",
                                        "{}",
                                        "null",
                                        "[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]",
                                        "{\"node\":{}}",
                                        "{\"node\":{\"parent\":[]}}",
                                        "{\"series\":{}}"};
    cleanup(stacks_release) struct stacks s;
    struct stacks_rows r;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        ck_assert_int_eq(stacks_read(bytes_str(texts[i]), "node", &s), STACKS_FOREIGN);
        ck_assert_int_eq(stacks_read_series(bytes_str(texts[i]), &r), STACKS_FOREIGN);
        ck_assert_int_eq(stacks_read_top(bytes_str(texts[i]), &r), STACKS_FOREIGN);
    }
    cleanup(buffer_release) struct buffer out = {0};
    ck_assert_int_eq(
        stacks_read(
            bytes_str(
                "{\"strings\":[7,\"\\u001b[2J\"],\"frame\":{\"name\":[1,9e99]},\"node\":{\"parent\":[5,7,1,-3],"
                "\"frame\":[99,0,1,-7],\"self\":[\"x\"],\"total\":[1e999,1,-5,null]}}"),
            "node", &s),
        0);
    const struct flame f = {.stacks = &s, .width = 30, .height = 5};
    draw(&f, false, &out);
    ck_assert_ptr_null(strchr((char *)out.p, '\x1b'));
}
