#include "ordered.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "certificate.hpp"
#include "input.hpp"

namespace cutlearn {

namespace {

constexpr double kRounding = 1e-9;  // of the table's size: below it c < 0 counts as zero
constexpr double kDwarf = 256;      // unaries this much larger than the tables are limited

// Calls f(direction, e, tail, head) for every edge, numbered within its direction.
template <class F>
void for_edges(const OrderedInput& input, F&& f) {
  if (!input.connectivity) {
    for (std::size_t e = 0; 2 * e < input.edges.size(); ++e)
      f(std::size_t{0}, e, input.edges[2 * e], input.edges[2 * e + 1]);
    return;
  }
  const GridShape grid = grid_shape(input.shape, false);  // slots are pixels
  const auto offsets = forward_offsets(input.connectivity);
  for (std::size_t d = 0; d < offsets.size(); ++d) {
    const Offset& o = offsets[d];
    const Id step = o[0] * grid.stride[0] + o[1] * grid.stride[1] + o[2];
    for_runs(grid, o, [&](Id slot, std::size_t e, Id n) {
      for (Id j = 0; j < n; ++j) f(d, e + j, slot + j, slot + j + step);
    });
  }
}

std::vector<std::size_t> edge_counts(const OrderedInput& input) {
  if (!input.connectivity) return {input.edges.size() / 2};
  const GridShape grid = grid_shape(input.shape, false);
  std::vector<std::size_t> counts;
  for (const Offset& o : forward_offsets(input.connectivity)) {
    counts.push_back(0);
    for_runs(grid, o, [&](Id, std::size_t, Id n) { counts.back() += n; });
  }
  return counts;
}

// The most that another label at the tail (or head) can save in a table.
double most_saved(const double* V, Id L, bool at_tail) {
  double most = 0;
  for (Id a = 0; a < L; ++a) {
    double low = std::numeric_limits<double>::infinity(), high = -low;
    for (Id b = 0; b < L; ++b) {
      const double x = at_tail ? V[b * L + a] : V[a * L + b];
      low = std::min(low, x);
      high = std::max(high, x);
    }
    most = std::max(most, high - low);
  }
  return most;
}

// Capacities of the arcs of c(k,l): tail's x_k -> head's x_l, and back.
struct Arcs {
  Cap there, back;
};
Arcs arcs_of(Cap c, Id k, Id l) {
  if (k == l) return {c - c / 2, c / 2};
  return k > l ? Arcs{c, 0} : Arcs{0, c};
}

// Rewrites a table V as the network needs it; see Ordered::parts_. c_kl is clamped to >= 0, and the
// sum of what that took is returned.
template <class T>
T take_apart(T* V, Id L) {
  T clamped = 0;
  for (Id k = L - 1; k > 0; --k)
    for (Id l = L - 1; l > 0; --l) {
      T& c = V[k * L + l];
      c = V[(k - 1) * L + l] + V[k * L + l - 1] - V[(k - 1) * L + l - 1] - c;
      if (c < 0) clamped -= std::exchange(c, T{0});
    }
  for (Id k = L - 1; k > 0; --k) V[k * L] -= V[(k - 1) * L];
  for (Id l = L - 1; l > 0; --l) V[l] -= V[l - 1];
  return clamped;
}

}  // namespace

Ordered::Ordered(const OrderedInput& input)
    : L_(input.labels),
      pixels_(static_cast<Id>(input.unary.size()) / input.labels),
      fixed_(input.fixed.begin(), input.fixed.end()),
      flow_(net_) {
  survey(input);
  if (fault_.what != OrderedFault::kNone) return;
  const bool dwarfs = edge_sum_ > 0 && node_sum_ > kDwarf * edge_sum_;
  if (dwarfs || !fixed_.empty()) limit_unaries(input);
  // Basic terms, and the arcs that keep the order: each carries all terms of its pixel.
  scale_ = scale_for(node_sum_ + edge_sum_ + (L_ - 2) * (node_sum_ + 2 * edge_sum_));
  net_.allocate(pixels_ * (L_ - 1), 0);
  quantise_tables(input);
  lay_arcs(input);
  add_unaries(limited_.empty() ? input.unary : limited_);
  push_directly();
  labels_.assign(pixels_, 0);
}

void Ordered::survey(const OrderedInput& input) {
  for (std::size_t i = 0; i < input.unary.size(); i += L_) {
    const double* u = input.unary.data() + i;
    double sum = std::abs(u[0]);
    for (Id l = 1; l < L_; ++l) sum += std::abs(u[l] - u[l - 1]);
    node_sum_ += sum;
    if (!std::isfinite(sum) && fault_.what == OrderedFault::kNone) {
      for (Id l = L_ - 1; l >= 0; --l)
        if (!std::isfinite(u[l])) fault_ = {OrderedFault::kUnary, std::int64_t(i) + l};
    }
  }
  const auto counts = edge_counts(input);
  for (std::size_t d = 0; d < counts.size(); ++d) {
    const Tables& tables = input.tables[d];
    if (!tables.each && counts[d]) survey_table(tables.data, d, 0, double(counts[d]));
    for (std::size_t e = 0; tables.each && e < counts[d]; ++e)
      survey_table(tables.data + e * square(), d, e, 1);
  }
  if (fault_.what == OrderedFault::kNone && !std::isfinite(6.0 * L_ * (node_sum_ + edge_sum_)))
    fault_.what = OrderedFault::kRange;
}

void Ordered::survey_table(const double* V, std::size_t direction, std::size_t edge,
                           double count) {
  double size = 0, sum = 0;
  for (std::size_t i = 0; i < square(); ++i) size += std::abs(V[i]);
  const auto at = [&](OrderedFault::What what, Id a, Id b, double amount) {
    fault_ = {what, std::int64_t(edge), std::int64_t(direction), a, b, amount};
  };
  if (!std::isfinite(size)) {
    if (fault_.what == OrderedFault::kNone || fault_.what == OrderedFault::kNotSubmodular)
      for (Id i = 0; i < L_ * L_; ++i)
        if (!std::isfinite(V[i])) return at(OrderedFault::kTable, i / L_, i % L_, V[i]);
    return;
  }
  sum = std::abs(V[0]);
  for (Id k = 1; k < L_; ++k) {
    sum += std::abs(V[k * L_] - V[(k - 1) * L_]) + std::abs(V[k] - V[k - 1]);
    for (Id l = 1; l < L_; ++l) {
      const double c = (V[(k - 1) * L_ + l] + V[k * L_ + l - 1]) -
                       (V[(k - 1) * L_ + l - 1] + V[k * L_ + l]);
      sum += 2 * std::abs(c);  // an arc and the unary that goes with it
      if (c >= -kRounding * size || c >= fault_.amount) continue;
      if (fault_.what == OrderedFault::kNone || fault_.what == OrderedFault::kNotSubmodular)
        at(OrderedFault::kNotSubmodular, k - 1, l - 1, c);
    }
  }
  edge_sum_ += count * sum;
}

// ensures no pixel chooses a label that was limited, and every fixed pixel chooses its own
void Ordered::limit_unaries(const OrderedInput& input) {
  const bool dwarfs = edge_sum_ > 0 && node_sum_ > kDwarf * edge_sum_;
  // Above the best label: twice what the tables can repay, and a share of the whole, so that
  // neither rounding nor a pixel without tables makes a tie.
  const double sum = edge_sum_ > 0 ? edge_sum_ : node_sum_ > 0 ? node_sum_ : 1;
  std::vector<double> room(pixels_, sum / pixels_);
  std::vector<double> saved(2 * input.tables.size());
  for (std::size_t i = 0; i < saved.size(); ++i)
    if (const Tables& t = input.tables[i / 2]; !t.each && t.data)
      saved[i] = 2 * most_saved(t.data, L_, i % 2 == 0);
  for_edges(input, [&](std::size_t d, std::size_t e, Id tail, Id head) {
    const Tables& t = input.tables[d];
    const double* V = t.data + e * square();
    room[tail] += t.each ? 2 * most_saved(V, L_, true) : saved[2 * d];
    room[head] += t.each ? 2 * most_saved(V, L_, false) : saved[2 * d + 1];
  });
  // Powers of two keep whole numbers whole.
  for (double& r : room) r = std::exp2(std::ceil(std::log2(r)));
  limited_.assign(input.unary.begin(), input.unary.end());
  node_sum_ = 0;
  for (Id t = 0; t < pixels_; ++t) {
    double* u = limited_.data() + std::size_t(t) * L_;
    if (dwarfs) {
      const double most = *std::min_element(u, u + L_) + room[t];
      for (Id l = 0; l < L_; ++l) u[l] = std::min(u[l], most);
    }
    if (const int label = fixed_.empty() ? -1 : fixed_[t]; label >= 0) {
      const double given = input.unary[std::size_t(t) * L_ + label], before = beyond_;
      beyond_ += given - u[label];
      beyond_exactly_ = beyond_exactly_ && beyond_ - before == given - u[label] &&
                        u[label] + (given - u[label]) == given;
      for (Id l = 0; l < L_; ++l)
        if (l != label) u[l] = u[label] + room[t];
    }
    node_sum_ += std::abs(u[0]);
    for (Id l = 1; l < L_; ++l) node_sum_ += std::abs(u[l] - u[l - 1]);
  }
  taken_.resize(limited_.size());
  for (std::size_t i = 0; i < taken_.size(); ++i) taken_[i] = input.unary[i] - limited_[i];
}

void Ordered::quantise_tables(const OrderedInput& input) {
  const auto counts = edge_counts(input);
  std::size_t all = 0;
  for (std::size_t d = 0; d < counts.size(); ++d) {
    first_part_.push_back(all);
    if (counts[d]) all += input.tables[d].each ? counts[d] : 1;
  }
  parts_.resize(all * square());
  for (std::size_t d = 0; d < counts.size(); ++d) {
    if (!counts[d]) continue;
    const Tables& t = input.tables[d];
    const std::size_t copies = t.each ? counts[d] : 1;
    for (std::size_t e = 0; e < copies; ++e)
      quantise_table(t.data + e * square(), parts_.data() + (first_part_[d] + e) * square(),
                     t.each ? 1 : double(counts[d]));
  }
}

void Ordered::quantise_table(const double* V, Cap* part, double count) {
  Quantiser q;
  q.scale = scale_;
  for (std::size_t i = 0; i < square(); ++i) part[i] = q(V[i]);
  const Cap clamped = take_apart(part, L_);
  inexact_ += static_cast<std::int64_t>(count) * ((q.inexact ? 1 : 0) + clamped);
  for (Id k = 1; k < L_; ++k)
    for (Id l = 1; l < L_; ++l) {
      const Arcs arcs = arcs_of(part[k * L_ + l], k, l);
      part[k * L_] -= arcs.there;
      part[l] -= arcs.back;
    }
}

void Ordered::lay_arcs(const OrderedInput& input) {
  const auto part_of = [&](std::size_t d, std::size_t e) {
    return parts_.data() + (first_part_[d] + (input.tables[d].each ? e : 0)) * square();
  };
  auto& first = net_.first;
  first.assign(net_.slots + 1, 0);
  for (Id t = 0; t < pixels_; ++t)
    for (Id k = 1; k + 1 < L_; ++k) ++first[node(t, k) + 1], ++first[node(t, k + 1) + 1];
  for_edges(input, [&](std::size_t d, std::size_t e, Id tail, Id head) {
    const Cap* part = part_of(d, e);
    for (Id k = 1; k < L_; ++k)
      for (Id l = 1; l < L_; ++l)
        if (part[k * L_ + l]) ++first[node(tail, k) + 1], ++first[node(head, l) + 1];
  });
  for (Id v = 0; v < net_.slots; ++v) first[v + 1] += first[v];
  net_.head.resize(first[net_.slots]);
  net_.sister.resize(first[net_.slots]);
  net_.arc.resize(first[net_.slots]);
  next_.assign(first.begin(), first.end() - 1);
  carried_.assign(pixels_, 0);
  // The arcs that keep the order come first, their capacities when all terms are known.
  for (Id t = 0; t < pixels_; ++t)
    for (Id k = 1; k + 1 < L_; ++k) join(node(t, k + 1), node(t, k), 0, 0);
  for_edges(input, [&](std::size_t d, std::size_t e, Id tail, Id head) {
    const Cap* part = part_of(d, e);
    net_.K += part[0];
    Cap carried = 0;
    for (Id k = 1; k < L_; ++k) {
      net_.add_unary(node(tail, k), part[k * L_]);
      net_.add_unary(node(head, k), part[k]);
      for (Id l = 1; l < L_; ++l)
        if (const Cap c = part[k * L_ + l]; c) {
          const Arcs arcs = arcs_of(c, k, l);
          join(node(tail, k), node(head, l), arcs.there, arcs.back);
          carried += c;
        }
    }
    carried_[tail] += carried;
    carried_[head] += carried;
  });
}

void Ordered::join(Id u, Id v, Cap there, Cap back) {
  const Id a = next_[u]++, b = next_[v]++;
  net_.head[a] = v;
  net_.head[b] = u;
  net_.sister[a] = b;
  net_.sister[b] = a;
  net_.arc[a] = there;
  net_.arc[b] = back;
}

void Ordered::add_unaries(std::span<const double> unary) {
  Quantiser q;
  q.scale = scale_;
  for (Id t = 0; t < pixels_; ++t) {
    const double* u = unary.data() + std::size_t(t) * L_;
    q.inexact = 0;
    Cap below = q(u[0]), all = carried_[t] + 1;
    net_.K += below;
    for (Id k = 1; k < L_; ++k) {
      const Id v = node(t, k);
      const Cap here = q(u[k]);
      net_.add_unary(v, here - std::exchange(below, here));
      all += std::abs(net_.excess[v]);
    }
    inexact_ += q.inexact != 0;
    // The first arc of a node leads to the threshold below; see lay_arcs.
    for (Id k = 2; k < L_; ++k) net_.arc[net_.first[node(t, k)]] = all;
  }
}

// Most flow travels one arc: source -> v -> w -> sink. Here that needs no search.
void Ordered::push_directly() {
  for (Id v = net_.begin(); v < net_.end(); ++v) {
    if (net_.excess[v] <= 0) continue;
    net_.any_code(v, [&](Id code) {
      const Id w = net_.neighbour(v, code);
      if (net_.excess[w] >= 0) return false;
      const Cap amount = std::min({net_.out(v, code), net_.excess[v], -net_.excess[w]});
      net_.push(v, code, amount);
      net_.excess[v] -= amount;
      net_.excess[w] += amount;
      net_.K += amount;
      return net_.excess[v] == 0;
    });
  }
}

void Ordered::solve() {
  flow_.solve();
  for (Id t = 0; t < pixels_; ++t) {
    std::uint8_t label = 0;
    for (Id k = 1; k < L_; ++k) label += flow_.on_source_side(node(t, k));
    labels_[t] = label;
  }
}

// Makes the label other than `on` cost more by `amount`.
void Ordered::favour(Id v, bool on, Cap amount) {
  net_.add_unary(v, on ? -amount : amount);
  if (on) net_.K += amount;
  flow_.excess_changed(v);
}

// ensures v has the label `on` in every minimum; gives the amount that `favour` was given
Cap Ordered::force(Id v, bool on) {
  const Cap amount = net_.incident(v) + std::abs(linear_coefficient(net_, v)) + 1;
  favour(v, on, amount);
  return amount;
}

void Ordered::min_marginals(double* least) {
  solve();
  const double best = static_cast<double>(net_.K) / scale_ + beyond_;
  for (Id t = 0; t < pixels_; ++t)
    for (Id l = 0; l < L_; ++l) {
      double& phi = least[std::size_t(t) * L_ + l];
      phi = best;
      if (l == labels_[t]) continue;
      if (!fixed_.empty() && fixed_[t] >= 0) {
        phi = std::numeric_limits<double>::infinity();
        continue;
      }
      const Cap up = l > 0 ? force(node(t, l), true) : 0;
      const Cap down = l + 1 < L_ ? force(node(t, l + 1), false) : 0;
      flow_.solve();
      phi = static_cast<double>(net_.K) / scale_ + beyond_;
      if (!taken_.empty()) phi += taken_[std::size_t(t) * L_ + l];
      if (l > 0) favour(node(t, l), true, -up);
      if (l + 1 < L_) favour(node(t, l + 1), false, -down);
    }
  flow_.solve();
}

}  // namespace cutlearn
