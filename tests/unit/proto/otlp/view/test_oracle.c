/* SPDX-License-Identifier: Apache-2.0 */
/* needs: proto/schema */
/* Every captured request, against protobuf-c's generated code as the oracle. */
#include <dirent.h>
#include <stdio.h>

#include "tests/lib/unit.h"
#include "tests/unit/proto/otlp/view/request.h"

UNIT(captures_decode_as_protobuf_c_says)
{
    cleanup(profiles_release) struct profiles v;
    ck_assert_int_eq(profiles_init(&v, NULL), 0);
    DIR *dir = unit_made(opendir(PG_SOURCE_DIR "/tests/data/connector"));
    int n_files = 0;
    for (struct dirent *entry; (entry = readdir(dir));) {
        size_t len = strlen(entry->d_name), n;
        char name[512];
        if (len < 3 || strcmp(entry->d_name + len - 3, ".pb") != 0)
            continue;
        snprintf(name, sizeof name, "connector/%s", entry->d_name);
        unsigned char *data = unit_data(name, &n);
        struct error e = {""};
        ck_assert_msg(profiles_decode(&v, bytes_of(data, n), &profiles_limits_default, &e) == 0, "%s: %s",
                      name, e.text);
        ck_assert_int_eq(v.layout, PROFILES_LAYOUT_1_10);
        ck_assert_uint_eq(v.rejected.samples, 0);
        char *ours = view_meaning(&v), *theirs = bytes_meaning(data, n, false);
        same_meaning(name, ours, theirs);
        ck_assert_uint_gt(strlen(ours), 1000);
        free(ours);
        free(theirs);
        free(data);
        n_files++;
    }
    closedir(dir);
    ck_assert_int_ge(n_files, 20);
}
