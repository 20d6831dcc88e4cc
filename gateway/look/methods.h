/* SPDX-License-Identifier: Apache-2.0 */
/* The methods of Pyroscope's querier.v1, and where they are. */
#ifndef GATEWAY_LOOK_METHODS_H
#define GATEWAY_LOOK_METHODS_H

#define LOOK_SERVICE_PATH "/querier.v1.QuerierService/"

#define LOOK_METHODS(X)                                    \
    X(PROFILE_TYPES, "ProfileTypes")                       \
    X(LABEL_NAMES, "LabelNames")                           \
    X(LABEL_VALUES, "LabelValues")                         \
    X(SERIES, "Series")                                    \
    X(SELECT_SERIES, "SelectSeries")                       \
    X(SELECT_MERGE_STACKTRACES, "SelectMergeStacktraces")  \
    X(SELECT_MERGE_PROFILE, "SelectMergeProfile")          \
    X(SELECT_MERGE_SPAN_PROFILE, "SelectMergeSpanProfile") \
    X(DIFF, "Diff")                                        \
    X(GET_PROFILE_STATS, "GetProfileStats")                \
    X(SELECT_HEATMAP, "SelectHeatmap")                     \
    X(ANALYZE_QUERY, "AnalyzeQuery")

enum look_method {
#define X(method, name) LOOK_CALL_##method,
    LOOK_METHODS(X)
#undef X
        LOOK_N_METHODS
};

#endif
