/* SPDX-License-Identifier: Apache-2.0 */
/* Some seconds' work for a C++ compiler, in as many of its corners as the standard library reaches. */
#include <algorithm>
#include <functional>
#include <future>
#include <iostream>
#include <map>
#include <random>
#include <regex>
#include <string>
#include <unordered_map>
#include <vector>

template <int N> struct Layer {
    static std::map<int, std::vector<std::string>> seen;
    static int pass(int x)
    {
        std::regex expression("a(b|c)*d");
        std::smatch matched;
        std::string text(x, 'a');
        std::regex_match(text, matched, expression);
        seen[x].push_back(text);
        std::sort(seen[x].begin(), seen[x].end());
        return Layer<N - 1>::pass(x + 1) + seen.size();
    }
};
template <int N> std::map<int, std::vector<std::string>> Layer<N>::seen;
template <> struct Layer<0> {
    static int pass(int x) { return x; }
};

int main(int n, char **words)
{
    std::unordered_map<std::string, std::function<int(int)>> by_name;
    by_name["add"] = [&](int x) { return x + n; };
    std::shuffle(words, words + n, std::mt19937());
    std::cout << Layer<LAYERS>::pass(n);
    return std::async([&] { return by_name["add"](3); }).get();
}
