#include "energy/networks.hpp"

namespace cutlearn {

// In four files of their own: these take long to compile, and in one unit the compiler inlines less
// of the search (5 % of the time of a solve).
extern template std::unique_ptr<BinaryEngine> make_binary<std::int32_t>(const Input&, const Survey&,
                                                                        double);
extern template std::unique_ptr<BinaryEngine> make_binary<Cap>(const Input&, const Survey&, double);
extern template std::unique_ptr<OrderedEngine> make_ordered_grid<std::int32_t>(const OrderedInput&,
                                                                               OrderedTerms&, Id);
extern template std::unique_ptr<OrderedEngine> make_ordered_grid<Cap>(const OrderedInput&,
                                                                      OrderedTerms&, Id);

std::unique_ptr<BinaryEngine> make_engine_at(const Input& input, const Survey& survey,
                                             double narrow) {
  return narrow > 0 ? make_binary<std::int32_t>(input, survey, narrow)
                    : make_binary<Cap>(input, survey, 0);
}

std::unique_ptr<BinaryEngine> make_engine(const Input& input, const Survey& survey) {
  return make_engine_at(input, survey, narrow_scale(input, survey));
}

std::unique_ptr<OrderedEngine> make_ordered(const OrderedInput& input, OrderedTerms terms) {
  if (terms.narrow) {
    // Of whole numbers the reach is known.
    if (auto engine = make_ordered_grid<std::int32_t>(input, terms, terms.reach)) {
      if (engine->inexact() == 0) return engine;
      terms = std::move(*engine).release();
    }
    terms.widen();
  }
  if (input.connectivity)
    if (auto engine = make_ordered_grid<Cap>(input, terms, rounded_reach(input, terms)))
      return engine;
  return std::make_unique<OrderedCut<Network<0, true, Cap>>>(input, std::move(terms));
}

}  // namespace cutlearn
