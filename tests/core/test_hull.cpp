// search_hull: the least of h(s) - F(s) for a convex F, whatever h is.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "learn/hull.hpp"
#include "worlds.hpp"

using namespace cutlearn;

TEST_CASE("nested cuts find the least over all counts") {
  const std::vector<std::function<double(double)>> functions{
      [](double) { return 0.0; }, [](double s) { return std::abs(s - 4); },
      [](double s) { return 0.3 * (s - 7) * (s - 7); }, [](double s) { return -2 * s; },
      [](double s) { return std::max(0.0, 3 * (s - 5)); }};
  for (int seed = 0; seed < 400; ++seed) {
    Random random(seed);
    const auto& F = functions[seed % functions.size()];
    std::vector<double> h(draw(random, 2, 12));
    for (double& value : h) value = draw(random, -20, 20);
    const auto n = static_cast<std::int64_t>(h.size()) - 1;
    double best = std::min(h[0] - F(0), h[n] - F(static_cast<double>(n)));
    int cuts = 0;
    const auto solve = [&](double mu) {
      std::int64_t at = 0;
      for (std::int64_t s = 1; s <= n; ++s)
        if (h[s] + mu * static_cast<double>(s) < h[at] + mu * static_cast<double>(at)) at = s;
      best = std::min(best, h[at] - F(static_cast<double>(at)));
      ++cuts;
      return Vertex{at, h[at], mu};
    };
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    search_hull({0, h[0], kInfinity}, {n, h[n], -kInfinity}, best, F, solve);
    // The least over the lower hull, by all its vertices.
    double want = std::min(h[0] - F(0), h[n] - F(static_cast<double>(n)));
    for (std::int64_t s = 0; s <= n; ++s) {
      double low = -kInfinity, high = kInfinity;  // the mu at which s is a minimum
      for (std::int64_t t = 0; t <= n; ++t) {
        if (t < s) high = std::min(high, (h[t] - h[s]) / static_cast<double>(s - t));
        if (t > s) low = std::max(low, (h[s] - h[t]) / static_cast<double>(t - s));
      }
      if (low < high) want = std::min(want, h[s] - F(static_cast<double>(s)));
    }
    CHECK(best == doctest::Approx(want));
    CHECK(cuts <= 2 * n);
  }
}

TEST_CASE("the bound between two vertices is never above a value between them") {
  for (int seed = 0; seed < 300; ++seed) {
    Random random(seed);
    const auto F = [&](double s) { return 0.1 * (seed % 7) * std::abs(s - seed % 11); };
    const std::int64_t from = draw(random, 0, 4), to = from + draw(random, 2, 9);
    const double mu = draw(random, -5, 5), nu = mu - draw(random, 0, 6);
    const Vertex a{from, 1.0 * draw(random, -9, 9), mu};
    // b lies above the line of a, and a above that of b, as vertices of one hull do.
    const double gap = static_cast<double>(to - from);
    const Vertex b{to, a.energy - mu * gap + (mu - nu) * gap * 0.5, nu};
    const double bound = bound_between(a, b, F);
    double lowest = std::numeric_limits<double>::infinity();
    for (std::int64_t s = from + 1; s < to; ++s) {
      const double at = static_cast<double>(s);
      const double h = std::max(a.energy - a.mu * (at - static_cast<double>(a.s)),
                                b.energy - b.mu * (at - static_cast<double>(b.s)));
      lowest = std::min(lowest, h - F(at));
    }
    CHECK(bound <= lowest + 1e-9);
  }
}
