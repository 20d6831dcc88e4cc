/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page for browsers, as pages of the admin server: / for who takes HTML, and its parts at /ui/HASH/NAME,
 * which never change at that address. They are in the program, gzipped; who does not take that has them
 * unpacked.
 */
#ifndef GATEWAY_UI_UI_H
#define GATEWAY_UI_UI_H

#include <stdint.h>

#include "gateway/admin/page.h"

#define UI_PAGES_MAX 16u

struct ui;

/* NULL: no memory. */
struct ui *ui_new(void);
struct ui *ui_free(struct ui *u);

/* Its pages, at most UI_PAGES_MAX; u must outlive the server. */
const struct admin_page *ui_pages(const struct ui *u, uint32_t *ret_n);

#endif
