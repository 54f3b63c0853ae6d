// How messages call the members of a group, which have another number outside of it.
#pragma once

#include <string>
#include <vector>

namespace tpu::distributed {

// "1, 2"
std::string Listed(const std::vector<int>& numbers);
// "rank 1", or "rank 1 (global rank 5)". No `global_ranks`: the numbers are the same.
std::string NameOf(int rank, const std::vector<int>& global_ranks);
// "rank 1", "ranks 1, 2 (global ranks 5, 6)".
std::string NamesOf(const std::vector<int>& ranks, const std::vector<int>& global_ranks);

}  // namespace tpu::distributed
