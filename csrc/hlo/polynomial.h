// Sizes as polynomials with integer coefficients in a few symbols: what a dimension is for every size of a dynamic input.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace tpu::hlo {

inline constexpr size_t kMaxSymbols = 4;

class Polynomial {
 public:
  using Exponents = std::array<uint8_t, kMaxSymbols>;
  using Terms = std::map<Exponents, int64_t>;  // without zeros

  Polynomial() = default;
  Polynomial(int64_t constant);  // NOLINT: a number is a polynomial
  static Polynomial Term(const Exponents& exponents, int64_t coefficient);

  const Terms& terms() const { return terms_; }
  bool is_constant() const { return terms_.empty() || (terms_.size() == 1 && terms_.begin()->first == Exponents{}); }
  // Of a constant one.
  int64_t constant() const { return terms_.empty() ? 0 : terms_.begin()->second; }
  int64_t At(std::span<const int64_t> symbols) const;
  // The quotient, if there is no remainder.
  std::optional<Polynomial> Over(const Polynomial& divisor) const;
  Polynomial& operator+=(const Polynomial& other);
  bool operator==(const Polynomial&) const = default;
  auto operator<=>(const Polynomial&) const = default;

 private:
  Terms terms_;
};

Polynomial operator+(Polynomial a, const Polynomial& b);
Polynomial operator-(Polynomial a, const Polynomial& b);
Polynomial operator*(const Polynomial& a, const Polynomial& b);

// Places at which a function of the symbols is looked at: enough of them decide a polynomial, the rest check it.
class Samples {
 public:
  // `low`, `high`: the range of each symbol.
  // `attempt`: another choice of places, for when one falls together with a size that is in the program anyway.
  Samples(std::span<const int64_t> low, std::span<const int64_t> high, int attempt);

  const std::vector<std::vector<int64_t>>& points() const { return points_; }
  // The smallest sizes that were looked at: a later attempt leaves some out.
  const std::vector<int64_t>& low() const { return low_; }
  // The polynomial that has these values at the points, if there is one of low degree.
  std::optional<Polynomial> Fit(std::span<const int64_t> values) const;

 private:
  std::vector<int64_t> low_;
  std::vector<std::vector<int64_t>> points_;
  std::vector<Polynomial::Exponents> basis_;
  std::vector<std::vector<double>> inverse_;
};

}  // namespace tpu::hlo
