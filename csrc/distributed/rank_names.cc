#include "distributed/rank_names.h"

namespace tpu::distributed {

std::string Listed(const std::vector<int>& numbers) {
  std::string text;
  for (int number : numbers) text += (text.empty() ? "" : ", ") + std::to_string(number);
  return text;
}

std::string NameOf(int rank, const std::vector<int>& global_ranks) { return NamesOf({rank}, global_ranks); }

std::string NamesOf(const std::vector<int>& ranks, const std::vector<int>& global_ranks) {
  std::vector<int> global;
  for (int rank : ranks) {
    const auto index = static_cast<size_t>(rank);
    global.push_back(index < global_ranks.size() ? global_ranks[index] : rank);
  }
  const std::string noun = ranks.size() == 1 ? "rank " : "ranks ";
  return noun + Listed(ranks) + (global == ranks ? "" : " (global " + noun + Listed(global) + ")");
}

}  // namespace tpu::distributed
