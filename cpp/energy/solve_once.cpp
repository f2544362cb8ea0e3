// One solve, in the cheapest way there is: an image-wide envelope by conditioning on its lines,
// nested cuts instead of a hub; anything else by the live engine.
//
// What     psi(s) is the lowest of a few lines, so min_y [E(y) + psi(s)] is the least of one cut
//          for each line, with unaries a_k m_i. Lines come with falling slope, so each cut has the
//          ones of the cut before it and perhaps more. A small change of slope resumes from the
//          last flow: it drains through the trees that are there and costs next to nothing. After a
//          great one a new engine is cheaper.
// Against  A hub that joins every node to one auxiliary node: all flow passes one place.
// Numbers  The lines are sums of the same quantised hinges that a hub would have, and among equal
//          minima the first line has the fewest ones: the same answer, to the last bit wherever
//          numbers are represented exactly.
#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "energy/engine.hpp"
#include "run/pool.hpp"

namespace cutlearn {

namespace {

constexpr std::int64_t kManyMembers = 4096;  // fewer make no hub worth avoiding
constexpr std::int64_t kFewLines = 8;        // a cut each
constexpr double kSmall = 1.0 / 16;          // of the unaries

// The regions but one, as arrays of their own.
struct OtherRegions {
  std::vector<std::int64_t> member_first{0}, hinge_first{0};
  std::vector<Id> members;
  std::vector<double> mass, slope, alpha, beta;

  OtherRegions(const Regions& r, std::size_t but) {
    for (std::size_t c = 0; c < r.count(); ++c) {
      if (c == but) continue;
      const auto add = [&](auto& to, const auto& from, std::span<const std::int64_t> first) {
        to.insert(to.end(), from.begin() + first[c], from.begin() + first[c + 1]);
      };
      add(members, r.members, r.member_first);
      add(mass, r.mass, r.member_first);
      add(alpha, r.alpha, r.hinge_first);
      add(beta, r.beta, r.hinge_first);
      slope.push_back(r.slope[c]);
      member_first.push_back(static_cast<std::int64_t>(members.size()));
      hinge_first.push_back(static_cast<std::int64_t>(alpha.size()));
    }
  }

  Regions view() const {
    if (slope.empty()) return {};
    return {member_first, hinge_first, members, mass, slope, alpha, beta};
  }
};

// One cut for each line of a region.
class LineByLine {
 public:
  LineByLine(const Input& input, const Survey& survey, std::size_t region) {
    const Regions& r = input.regions;
    const auto part = [&](const auto& values, std::span<const std::int64_t> first) {
      return values.subspan(first[region], first[region + 1] - first[region]);
    };
    members_ = part(r.members, r.member_first);
    mass_ = part(r.mass, r.member_first);
    alpha_ = part(r.alpha, r.hinge_first);
    beta_ = part(r.beta, r.hinge_first);
    slope_ = r.slope[region];
    unary_ = input.unary;
    others_ = std::make_unique<OtherRegions>(r, region);
    rest_ = input;
    rest_.regions = others_->view();
    survey_ = survey;
    narrow_scale_ = narrow_scale(input, survey);
    std::array<double, 8> sums{};  // side by side: one alone would wait for each addition
    for (std::size_t q = 0; q < mass_.size(); ++q) sums[q % sums.size()] += mass_[q];
    total_ = std::accumulate(sums.begin(), sums.end(), 0.0);
    rebuild();
  }

  Solved solve() {
    Solved best;
    Quantiser quantise(engine_->scale());
    Cap lines = 0;
    std::int64_t inexact = 0;
    for (std::size_t k = 0; k <= alpha_.size(); ++k) {
      if (k > 0) {
        lines += quantise(beta_[k - 1]);
        inexact = std::max(inexact, engine_->inexact());
        small(alpha_[k - 1]) ? engine_->shift_unary(members_, mass_, -alpha_[k - 1]) : rebuild(k);
      }
      engine_->solve();
      if (k == 0 || engine_->minimum() + lines < best.minimum) {
        best.minimum = engine_->minimum() + lines;
        best.labels.assign(engine_->labels().begin(), engine_->labels().end());
      }
    }
    best.scale = quantise.scale();
    best.inexact = quantise.inexact + std::max(inexact, engine_->inexact());
    best.cuts = static_cast<std::int64_t>(alpha_.size()) + 1;
    return best;
  }

 private:
  // Whether the trees can follow a change of slope; a greater one turns too many of them over.
  bool small(double alpha) const { return alpha * total_ < kSmall * survey_.unary; }

  // A new engine, at line k.
  void rebuild(std::size_t k = 0) {
    engine_.reset();
    if (narrow_scale_ > 0) add_line(k);
    engine_ = make_engine_at(rest_, survey_, narrow_scale_);
    if (narrow_scale_ > 0) return;
    engine_->shift_unary(members_, mass_, slope_);
    for (std::size_t j = 0; j < k; ++j) engine_->shift_unary(members_, mass_, -alpha_[j]);
  }

  // The unaries with those of line k: all are whole numbers of quanta, fewer than 2^51 each, so no
  // sum is rounded. Else every product is rounded by itself, as a hub's would be.
  void add_line(std::size_t k) {
    shifted_.assign(unary_.begin(), unary_.end());
    for (std::size_t q = 0; q < members_.size(); ++q) {
      double shift = slope_ * mass_[q];
      for (std::size_t j = 0; j < k; ++j) shift -= alpha_[j] * mass_[q];
      shifted_[members_[q]] += shift;
    }
    rest_.unary = shifted_;
  }

  std::span<const double> unary_;  // as they were given
  PooledVector<double> shifted_;
  Input rest_;
  Survey survey_;  // of all regions
  std::unique_ptr<OtherRegions> others_;
  double narrow_scale_ = 0;
  std::unique_ptr<BinaryEngine> engine_;
  std::span<const Id> members_;
  std::span<const double> mass_, alpha_, beta_;
  double slope_ = 0, total_ = 0;  // of the first line; of the masses
};

}  // namespace

std::int64_t conditioned_region(const Input& input) {
  const Regions& r = input.regions;
  const auto n = static_cast<std::int64_t>(input.unary.size());
  for (std::size_t c = 0; c < r.count(); ++c) {
    const std::int64_t members = r.member_first[c + 1] - r.member_first[c];
    const std::int64_t hinges = r.hinge_first[c + 1] - r.hinge_first[c];
    if (hinges > 0 && hinges < kFewLines && members >= kManyMembers && 2 * members > n)
      return static_cast<std::int64_t>(c);
  }
  return -1;
}

Solved solve_once(const Input& input, const Survey& survey, int threads) {
  const std::int64_t region = survey.clip() ? -1 : conditioned_region(input);
  if (region >= 0) return LineByLine(input, survey, static_cast<std::size_t>(region)).solve();
  const auto engine = make_engine(input, survey);
  engine->solve(threads);
  return engine->answer();
}

}  // namespace cutlearn
