// Which keys a query sees. The same function, by the same name, is in course_utils.attention.masks.
#pragma once

// Always the first so many. A causal mask is aligned at the bottom right: the last query sees all.
__device__ inline int keys_seen_by(int query, int n_queries, int n_keys, bool causal) {
    return causal ? min(max(query + 1 + n_keys - n_queries, 0), n_keys) : n_keys;
}
