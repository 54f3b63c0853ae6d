#include "hlo/polynomial.h"

#include <algorithm>
#include <cmath>

namespace tpu::hlo {
namespace {

int64_t Evaluate(const Polynomial::Exponents& exponents, std::span<const int64_t> symbols) {
  int64_t product = 1;
  for (size_t i = 0; i < symbols.size(); ++i) {
    for (int e = 0; e < exponents[i]; ++e) product *= symbols[i];
  }
  return product;
}

void AddTerm(Polynomial::Terms& terms, const Polynomial::Exponents& exponents, int64_t coefficient) {
  const auto [it, made] = terms.emplace(exponents, coefficient);
  if (!made) it->second += coefficient;
  if (it->second == 0) terms.erase(it);
}

// By Gauss and Jordan with pivots; empty when the matrix is singular.
std::vector<std::vector<double>> Inverse(std::vector<std::vector<double>> a) {
  const size_t n = a.size();
  for (size_t i = 0; i < n; ++i) {
    a[i].resize(2 * n, 0.0);
    a[i][n + i] = 1;
  }
  for (size_t column = 0; column < n; ++column) {
    size_t pivot = column;
    for (size_t row = column; row < n; ++row) {
      if (std::abs(a[row][column]) > std::abs(a[pivot][column])) pivot = row;
    }
    if (std::abs(a[pivot][column]) < 1e-9) return {};
    std::swap(a[pivot], a[column]);
    const double scale = a[column][column];
    for (double& v : a[column]) v /= scale;
    for (size_t row = 0; row < n; ++row) {
      if (row == column) continue;
      const double factor = a[row][column];
      for (size_t i = 0; i < 2 * n; ++i) a[row][i] -= factor * a[column][i];
    }
  }
  std::vector<std::vector<double>> inverse;
  for (const auto& row : a) inverse.emplace_back(row.begin() + static_cast<int64_t>(n), row.end());
  return inverse;
}

// All terms of degree at most two, and products of one symbol's square with another symbol.
std::vector<Polynomial::Exponents> Basis(size_t symbols) {
  std::vector<Polynomial::Exponents> basis = {{}};
  for (size_t i = 0; i < symbols; ++i) {
    for (uint8_t e = 1; e <= 2; ++e) {
      Polynomial::Exponents term{};
      term[i] = e;
      basis.push_back(term);
      for (size_t j = 0; j < symbols; ++j) {
        if (j == i || (e == 1 && j < i)) continue;
        term[j] = 1;
        basis.push_back(term);
        term[j] = 0;
      }
    }
  }
  return basis;
}

}  // namespace

Polynomial::Polynomial(int64_t constant) {
  if (constant != 0) terms_.emplace(Exponents{}, constant);
}

Polynomial Polynomial::Term(const Exponents& exponents, int64_t coefficient) {
  Polynomial p;
  AddTerm(p.terms_, exponents, coefficient);
  return p;
}

int64_t Polynomial::At(std::span<const int64_t> symbols) const {
  int64_t sum = 0;
  for (const auto& [exponents, coefficient] : terms_) sum += coefficient * Evaluate(exponents, symbols);
  return sum;
}

std::optional<Polynomial> Polynomial::Over(const Polynomial& divisor) const {
  if (divisor.terms_.empty()) return std::nullopt;
  const auto& [lead, lead_coefficient] = *divisor.terms_.rbegin();
  Polynomial rest = *this, quotient;
  while (!rest.terms_.empty()) {
    const auto& [exponents, coefficient] = *rest.terms_.rbegin();
    if (coefficient % lead_coefficient != 0) return std::nullopt;
    Exponents left{};
    for (size_t i = 0; i < kMaxSymbols; ++i) {
      if (exponents[i] < lead[i]) return std::nullopt;
      left[i] = static_cast<uint8_t>(exponents[i] - lead[i]);
    }
    const Polynomial term = Term(left, coefficient / lead_coefficient);
    quotient = quotient + term;
    rest = rest - term * divisor;
  }
  return quotient;
}

Polynomial& Polynomial::operator+=(const Polynomial& other) {
  for (const auto& [exponents, coefficient] : other.terms_) AddTerm(terms_, exponents, coefficient);
  return *this;
}

Polynomial operator+(Polynomial a, const Polynomial& b) { return a += b; }

Polynomial operator-(Polynomial a, const Polynomial& b) { return a += b * Polynomial(-1); }

Polynomial operator*(const Polynomial& a, const Polynomial& b) {
  Polynomial product;
  for (const auto& [ea, ca] : a.terms()) {
    for (const auto& [eb, cb] : b.terms()) {
      Polynomial::Exponents exponents{};
      for (size_t i = 0; i < kMaxSymbols; ++i) exponents[i] = static_cast<uint8_t>(ea[i] + eb[i]);
      product += Polynomial::Term(exponents, ca * cb);
    }
  }
  return product;
}

Samples::Samples(std::span<const int64_t> given_low, std::span<const int64_t> high, int attempt) {
  for (size_t i = 0; i < given_low.size(); ++i) low_.push_back(std::min(given_low[i] + attempt, high[i]));
  const std::vector<int64_t>& low = low_;
  basis_ = Basis(low.size());
  // Multiplicative steps spread the places over each range, a different step for each symbol.
  const size_t wanted = basis_.size() + 2;
  for (size_t k = 0; k < wanted; ++k) {
    std::vector<int64_t> point;
    for (size_t i = 0; i < low.size(); ++i) {
      const int64_t span = high[i] - low[i];
      constexpr double kSteps[kMaxSymbols] = {0.7548776662, 0.5698402910, 0.8191725134, 0.6710436067};
      double place = static_cast<double>(k + 1) * kSteps[i] + 0.37 * attempt;
      place -= std::floor(place);
      int64_t size = low[i] + static_cast<int64_t>(std::llround(place * static_cast<double>(span)));
      if (k == 0) size = low[i];
      if (k == 1) size = std::max(low[i], high[i] - attempt);
      point.push_back(size);
    }
    if (std::find(points_.begin(), points_.end(), point) == points_.end()) points_.push_back(std::move(point));
  }
  if (points_.size() < basis_.size()) return;
  std::vector<std::vector<double>> matrix;
  for (size_t k = 0; k < basis_.size(); ++k) {
    auto& row = matrix.emplace_back();
    for (const auto& exponents : basis_) row.push_back(static_cast<double>(Evaluate(exponents, points_[k])));
  }
  inverse_ = Inverse(std::move(matrix));
}

std::optional<Polynomial> Samples::Fit(std::span<const int64_t> values) const {
  if (std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == values[0]; }))
    return Polynomial(values[0]);
  if (inverse_.empty()) return std::nullopt;
  Polynomial fitted;
  for (size_t i = 0; i < basis_.size(); ++i) {
    double coefficient = 0;
    for (size_t k = 0; k < basis_.size(); ++k) coefficient += inverse_[i][k] * static_cast<double>(values[k]);
    fitted += Polynomial::Term(basis_[i], std::llround(coefficient));
  }
  for (size_t k = 0; k < points_.size(); ++k) {
    if (fitted.At(points_[k]) != values[k]) return std::nullopt;
  }
  return fitted;
}

}  // namespace tpu::hlo
