/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/parse/cells.h"

#include "rules/source/place.h"
#include "rules/source/report.h"

/* The proposal of E104: the dashes go before the last cell, where the gap most often is. */
static void report_cells(struct report *report, const struct ast_table *table, const struct ast_row *row)
{
    cleanup(buffer_release) struct buffer names = BUFFER_INIT(600), cells = BUFFER_INIT(600);
    for (uint32_t i = 0; i < table->n_columns; i++)
        buffer_printf(&names, "%s%.*s", i > 0 ? ", " : "", BYTES_FMT(table->columns[i].name));
    report_at(report, "E104", row->cells_place, "%u cell%s for %u column%s (%.*s)", row->n_cells,
              row->n_cells == 1 ? "" : "s", table->n_columns, table->n_columns == 1 ? "" : "s",
              BYTES_FMT(buffer_bytes(&names)));
    uint32_t missing = row->n_cells < table->n_columns ? table->n_columns - row->n_cells : 0;
    for (uint32_t i = 0; missing > 0 && i < row->n_cells; i++) {
        for (uint32_t k = 0; k < missing && i > 0 && i + 1 == row->n_cells; k++)
            buffer_add_str(&cells, ", -");
        buffer_add_str(&cells, i > 0 ? ", " : "");
        if (row->cells[i])
            source_fold(row->cells[i]->source, &cells, 60);
        else
            buffer_add_str(&cells, "-");
        for (uint32_t k = 0; k < missing && row->n_cells == 1; k++)
            buffer_add_str(&cells, ", -");
    }
    if (missing > 0)
        report_propose(report, "a column without a value is written -:  %.*s",
                       BYTES_FMT(buffer_bytes(&cells)));
    report_done(report);
}

bool cells_fit(const struct ast_table *table, const struct ast_row *row, struct report *report)
{
    if (row->n_cells == table->n_columns)
        return true;
    report_cells(report, table, row);
    return false;
}
