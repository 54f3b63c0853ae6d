#include <cstdio>
#include <cstdlib>
#include <deque>
#include <unordered_map>

#include "lowering/lowering.h"

namespace tpu::lowering {
namespace {

// Filled by static initialisers, before any thread of ours exists; only read afterwards.
std::unordered_map<std::string_view, const Lowering*>& Table() {
  static auto& table = *new std::unordered_map<std::string_view, const Lowering*>;
  return table;
}

}  // namespace

bool Register(Lowering lowering) {
  static auto& storage = *new std::deque<Lowering>;
  const Lowering& kept = storage.emplace_back(std::move(lowering));
  if (!Table().emplace(kept.name, &kept).second) {
    std::fprintf(stderr, "torchtpu: the lowering of %s is registered twice\n", kept.name.c_str());
    std::abort();
  }
  return true;
}

const Lowering* Find(std::string_view name) {
  auto it = Table().find(name);
  return it == Table().end() ? nullptr : it->second;
}

std::vector<const Lowering*> All() {
  std::vector<const Lowering*> all;
  for (const auto& [name, lowering] : Table()) all.push_back(lowering);
  return all;
}

double Scalar::ToDouble() const {
  return std::visit(
      [](auto v) {
        if constexpr (std::is_same_v<decltype(v), std::complex<double>>) {
          return v.real();
        } else {
          return static_cast<double>(v);
        }
      },
      value);
}

int64_t Scalar::ToInt() const {
  if (const auto* i = std::get_if<int64_t>(&value)) return *i;
  return static_cast<int64_t>(ToDouble());
}

std::complex<double> Scalar::ToComplex() const {
  if (const auto* c = std::get_if<std::complex<double>>(&value)) return *c;
  return ToDouble();
}

Value Scalar::ToValue(Builder& b, DType dtype) const {
  if (IsComplex(dtype)) return b.Const(ToComplex(), dtype);
  if (tpu::IsInteger(dtype)) return b.ConstInt(ToInt(), dtype);
  return b.Const(ToDouble(), dtype);
}

}  // namespace tpu::lowering
