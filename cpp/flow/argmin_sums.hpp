// Sums over all argmin-marginals without making any of them.
//
// What     Let c_d be the weight of node d, A_d the nodes that turn to their other label when d
//          does (flow/marginals.hpp), and y the minimiser. For any features psi of nodes, edges and
//          regions,
//            sum_d c_d [ psi(argmin_d) - psi(y) ]
//          depends on c and the sets through few numbers only, whatever the number of features:
//            node_i      sum over d of c_d [i in A_d] (1 - 2 y_i)
//            edge_e      sum over d of c_d ( [e is cut by argmin_d] - [e is cut by y] )
//            region_cs   sum over d of c_d ( [argmin_d has s ones in region c] - [y has] )
// Weights  Either given, or those of the gradient of the log-likelihood of labels y*,
//          sum_d log q_d(y*_d) with q_d the softmax of -Phi_d:
//            c_d = q_d(1 - y_d) - [y*_d != y_d].
// Numbers  Sums are integers in units so fine that n weights just fit into 62 bits: they do not
//          depend on the order, so not on the number of threads.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "flow/grid.hpp"

namespace cutlearn {

constexpr std::uint8_t kVoid = 255;  // a label that is not known: weight 0

// What to sum; one of weights and truth is given, one number for each node.
struct ArgminTask {
  std::span<const double> weights;
  std::span<const std::uint8_t> truth;
  std::span<const std::int64_t> region_first;  // offsets, number of regions + 1
  std::span<const Id> members;
};

struct ArgminSums {
  std::vector<double> node, edge, region;  // region c at region_first[c] + c, a number for each s
};

// The tasks' part that all threads share.
class ArgminPlan {
 public:
  ArgminPlan(const ArgminTask& task, std::span<const std::uint8_t> labels)
      : task_(task), labels_(labels), first_(labels.size() + 1, 0), regions_(task.members.size()) {
    const std::size_t regions = task.region_first.empty() ? 0 : task.region_first.size() - 1;
    ones_.assign(regions, 0);
    for (const Id i : task.members) ++first_[i + 1];
    for (std::size_t i = 0; i < labels.size(); ++i) first_[i + 1] += first_[i];
    std::vector<std::int64_t> next(first_.begin(), first_.end() - 1);
    for (std::size_t c = 0; c < regions; ++c)
      for (std::int64_t k = task.region_first[c]; k < task.region_first[c + 1]; ++k) {
        const Id i = task.members[k];
        regions_[next[i]++] = static_cast<Id>(c);
        ones_[c] += labels[i];
      }
    double most = 1;
    for (const double c : task.weights) most = std::max(most, std::abs(c));
    int digits = 0;
    std::frexp(most * static_cast<double>(labels.size() + 1), &digits);
    unit_ = std::ldexp(1.0, digits - 62);
  }

  // c_d in units, for a node whose other label costs `rise` more.
  std::int64_t weight(Id i, double rise) const {
    if (!task_.weights.empty()) return std::llrint(task_.weights[i] / unit_);
    if (task_.truth[i] == kVoid) return 0;
    const double q = 1 / (1 + std::exp(rise));
    return std::llrint((q - (task_.truth[i] != labels_[i])) / unit_);
  }
  std::span<const Id> regions_of(Id i) const {
    return {regions_.data() + first_[i], regions_.data() + first_[i + 1]};
  }
  std::size_t region_count() const { return ones_.size(); }
  std::size_t region_size() const { return task_.members.size() + ones_.size(); }
  // Where the sums of region c begin, shifted so that [0] is the number of ones in y.
  std::int64_t at_ones(Id c) const { return task_.region_first[c] + c + ones_[c]; }
  double unit() const { return unit_; }

 private:
  const ArgminTask& task_;
  std::span<const std::uint8_t> labels_;
  std::vector<std::int64_t> first_;  // regions of a node
  std::vector<Id> regions_;
  std::vector<std::int64_t> ones_;  // of y in each region
  double unit_ = 1;
};

// The sums of one thread. Edges are counted where the network has them: at the forward direction of
// their first end, or at the arc out of the set.
template <class Net>
class ArgminSummer {
 public:
  static constexpr int D = Net::directions;

  // on: the nodes of label 1, by slot
  ArgminSummer(Net& net, const GridShape& grid, const std::vector<std::uint8_t>& on,
               const ArgminPlan& plan)
      : net_(net),
        grid_(grid),
        on_(on),
        plan_(plan),
        node_(grid.slots),
        inside_(net.slots, 0),
        edge_(D ? std::size_t{D / 2} * net.slots : net.arc.size()),
        region_(plan.region_size()),
        turned_(plan.region_count(), 0) {}

  // Adds node i with its set, given as slots.
  void add(Id i, double rise, std::span<const Id> set) {
    const std::int64_t c = plan_.weight(i, rise);
    if (c == 0) return;
    const bool on = on_[set[0]];  // as all nodes of the set
    for (const Id v : set) inside_[v] = 1;
    for (const Id v : set)
      if (v < grid_.slots) add_node(v, c, on);
    for (const Id v : set) inside_[v] = 0;
    for (const Id r : touched_) {
      const std::int64_t at = plan_.at_ones(r), turned = std::exchange(turned_[r], 0);
      region_[at + (on ? -turned : turned)] += c;
      region_[at] -= c;
    }
    touched_.clear();
  }

  void add(const ArgminSummer& other) {
    const auto sum = [](auto& to, const auto& from) {
      for (std::size_t k = 0; k < to.size(); ++k) to[k] += from[k];
    };
    sum(node_, other.node_);
    sum(edge_, other.edge_);
    sum(region_, other.region_);
  }

  ArgminSums sums(std::span<const Id> edge_arc) const {
    ArgminSums out;
    const auto real = [&](std::int64_t x) { return plan_.unit() * static_cast<double>(x); };
    grid_.for_pixels([&](Id, Id v) { out.node.push_back(real(node_[v])); });
    for (const std::int64_t x : region_) out.region.push_back(real(x));
    if constexpr (D == 0) {
      for (const Id a : edge_arc) out.edge.push_back(real(edge_[a] + edge_[net_.sister[a]]));
    } else {
      const auto offsets = forward_offsets(D);
      for (int k = 0; k < D / 2; ++k)
        for_runs(grid_, offsets[k], [&](Id slot, std::size_t, Id n) {
          const std::int64_t* from = edge_.data() + std::size_t(k) * net_.slots + slot;
          for (Id j = 0; j < n; ++j) out.edge.push_back(real(from[j]));
        });
    }
    return out;
  }

 private:
  void add_node(Id v, std::int64_t c, bool on) {
    node_[v] += on ? -c : c;
    if (!turned_.empty())
      for (const Id r : plan_.regions_of(grid_.pixel(v)))
        if (turned_[r]++ == 0) touched_.push_back(r);
    // An edge with one end in the set turns from whole to cut, or back if y cuts it.
    const auto turn = [&](Id w, std::int64_t& sum) {
      if (!inside_[w]) sum += on_[w] == on ? c : -c;
    };
    if constexpr (D == 0) {
      net_.any_code(v, [&](Id code) {
        const Id w = net_.neighbour(v, code);
        if (w < grid_.slots) turn(w, edge_[code]);
        return false;
      });
    } else {
      for (int k = 0; k < D / 2; ++k) {
        std::int64_t* here = edge_.data() + std::size_t(k) * net_.slots + v;
        const Id step = net_.offset[2 * k];
        turn(v + step, here[0]);
        turn(v - step, here[-step]);
      }
    }
  }

  Net& net_;
  const GridShape& grid_;
  const std::vector<std::uint8_t>& on_;
  const ArgminPlan& plan_;
  std::vector<std::int64_t> node_;    // by slot
  std::vector<std::uint8_t> inside_;  // the set at hand
  std::vector<std::int64_t> edge_, region_;
  std::vector<std::int64_t> turned_;  // members that the set has in a region
  std::vector<Id> touched_;           // regions that it meets
};

}  // namespace cutlearn
