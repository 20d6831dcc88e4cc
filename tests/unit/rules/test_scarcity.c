/* Rules without memory: compiled as they should be, or not at all; never called wrong, never with less in
 * them than was written. */
#include <string.h>

#include "proto/base/macros.h"
#include "rules/match.h"
#include "rules/program.h"
#include "tests/lib/sweep.h"
#include "tests/unit/rules/rules_helper.h"

static const char text[] =
    "rules 1\npack t\n"
    "param pattern own = \"own_*\"\n"
    "frame mine = function ~ own or function ~ /^m[ae]in$/\n"
    "region kpath = frames while kernel through \"sys_*\"\n"
    "table area (name, part) {\n  \"a*\" | /b+c/ => \"ab\", \"1\"\n  \"net_*\" => \"net\", \"2\"\n}\n"
    "counter one { describe \"d\" unit \"1\" on any value one where any frame is mine\n"
    "  label area = area.name of leaf ?? \"other\" label thread = sample[\"thread.name\"] }\n"
    "counter two { describe \"d\" unit \"1\" on \"cpu/*\" | \"samples/count\" value one\n"
    "  where \"a\" calls \"b\" or \"b\" directly calls \"c\"\n"
    "  each distinct frame is (type != none) label t = type of frame }\n"
    "counter three { describe \"d\" unit \"s\" on cpu }\n"
    "gauge four { describe \"d\" unit \"1\" on any value one combine mean }\n"
    "keep 10% when resource[\"service.name\"] = \"shop\"\n";

#include "proto/base/error.h"

static struct rules_diagnostics found;

static struct rule_set *compile(const char *what)
{
    struct rules_input input = {"t.rules", bytes_str(what), false};
    return rules_compile(&input, 1, &found);
}

UNIT(dummy)
{
    struct rule_set *set = compile(text);
    for (uint32_t i = 0; i < found.n; i++)
        fprintf(stderr, "%s", found.items[i].text);
    ck_assert_ptr_nonnull(set);
}
