// Cuts depend on the ops: loops are cut alike in every iteration, whatever came before them.
#include "runtime/cut_points.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace tpu::runtime {
namespace {

using Contents = std::vector<uint64_t>;

Contents Random(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  Contents contents(count);
  for (uint64_t& c : contents) c = random();
  return contents;
}

// Positions of the cuts of `prefix` and then `times` times `body`.
std::vector<size_t> Cuts(const Contents& prefix, const Contents& body, size_t times) {
  CutPoints points;
  std::vector<size_t> cuts;
  const auto feed = [&](const Contents& contents) {
    for (uint64_t c : contents) {
      for (size_t cut : points.Add(c)) cuts.push_back(cut);
    }
  };
  feed(prefix);
  for (size_t i = 0; i < times; ++i) feed(body);
  return cuts;
}

// Of the programs after the first three iterations: their lengths and where in the body they begin.
std::map<std::pair<size_t, size_t>, int> Steady(const std::vector<size_t>& cuts, size_t prefix, size_t body) {
  std::map<std::pair<size_t, size_t>, int> programs;
  for (size_t i = 1; i < cuts.size(); ++i) {
    const size_t begin = cuts[i - 1];
    if (begin < prefix + 3 * body + 2 * CutPoints::kRadius) continue;
    ++programs[{(begin - prefix) % body, cuts[i] - begin}];
  }
  return programs;
}

class Loop : public testing::TestWithParam<size_t> {};

TEST_P(Loop, IterationsAreCutAlikeWhateverCameBefore) {
  const size_t length = GetParam();
  const Contents body = Random(length, length);
  const size_t times = 40 + 8000 / length;
  const auto expected = Steady(Cuts({}, body, times), 0, length);
  ASSERT_FALSE(expected.empty());
  size_t covered = 0;
  for (const auto& [program, count] : expected) covered += program.second;
  EXPECT_EQ(covered % length, 0u) << "the programs of a steady loop make whole iterations";
  for (size_t prefix : {1, 100, 255, 256, 257, 1000}) {
    const auto found = Steady(Cuts(Random(prefix, 77), body, times), prefix, length);
    std::vector<std::pair<size_t, size_t>> a, b;
    for (const auto& [program, count] : expected) a.push_back(program);
    for (const auto& [program, count] : found) b.push_back(program);
    EXPECT_EQ(a, b) << "after " << prefix << " other ops";
  }
}

INSTANTIATE_TEST_SUITE_P(Lengths, Loop,
                         testing::Values(1, 2, 5, 30, 63, 64, 65, 86, 200, 256, 257, 300, 700, 1500, 4000));

TEST(CutPoints, CutsRiseAndProgramsAreBounded) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const std::vector<size_t> cuts = Cuts({}, Random(20000, seed), 1);
    size_t last = 0;
    for (size_t cut : cuts) {
      ASSERT_GT(cut, last);
      ASSERT_LE(cut - last, CutPoints::kMaximum);
      last = cut;
    }
    EXPECT_GT(cuts.size(), 20000 / CutPoints::kMaximum - 1);
  }
}

TEST(CutPoints, ShortIterationsShareAProgram) {
  const auto programs = Steady(Cuts({}, Random(5, 1), 1000), 0, 5);
  ASSERT_EQ(programs.size(), 1u);
  EXPECT_GE(programs.begin()->first.second, CutPoints::kGroup);
  EXPECT_LT(programs.begin()->first.second, CutPoints::kGroup + 5);
}

TEST(CutPoints, EqualLayersShareTheirPrograms) {
  const Contents layer = Random(40, 3), head = Random(32, 4);
  for (int layers : {12, 48}) {
    Contents body = head;
    for (int i = 0; i < layers; ++i) body.insert(body.end(), layer.begin(), layer.end());
    std::map<Contents, int> distinct;
    for (const auto& [program, count] : Steady(Cuts({}, body, 20), 0, body.size())) {
      Contents ops;
      for (size_t i = 0; i < program.second; ++i) ops.push_back(body[(program.first + i) % body.size()]);
      ++distinct[ops];
    }
    EXPECT_LE(distinct.size(), 4u) << layers << " layers";
  }
}

TEST(CutPoints, ResetForgets) {
  CutPoints points;
  for (uint64_t c : Random(1000, 5)) points.Add(c);
  points.Reset();
  const Contents body = Random(100, 6);
  std::vector<size_t> after;
  for (int i = 0; i < 30; ++i) {
    for (uint64_t c : body) {
      for (size_t cut : points.Add(c)) after.push_back(cut);
    }
  }
  EXPECT_EQ(after, Cuts({}, body, 30));
}

}  // namespace
}  // namespace tpu::runtime
