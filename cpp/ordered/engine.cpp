#include "ordered/engine.hpp"

#include "ordered/flow.hpp"

namespace cutlearn {

// Each in a file of its own: these are what takes long to compile. Null if no layout of a grid serves.
std::unique_ptr<Ordered> make_narrow_grid(const OrderedInput& input, OrderedTerms& terms, Id reach);
std::unique_ptr<Ordered> make_wide_grid(const OrderedInput& input, OrderedTerms& terms, Id reach);

namespace {

// The largest |k - l| with c(k,l) > 0 after rounding.
Id rounded_reach(const OrderedInput& input, const OrderedTerms& terms) {
  const Id L = terms.L;
  Parts<0, false> parts(input, terms);
  Id reach = 0;
  for (std::size_t d = 0; d < input.tables.size(); ++d)
    for (std::size_t e = 0; e < (input.tables[d].each ? terms.edges[d] : terms.edges[d] > 0); ++e) {
      const Cap* part = parts(d, e);
      for (Id k = 1; k < L; ++k)
        for (Id l = 1; l < L; ++l)
          if (part[k * L + l]) reach = std::max(reach, std::abs(k - l));
      if (reach == L - 2) return reach;
    }
  return reach;
}

}  // namespace

std::unique_ptr<Ordered> make_ordered(const OrderedInput& input, OrderedTerms terms) {
  if (terms.narrow) {
    // Of whole numbers the reach is known.
    if (auto flow = make_narrow_grid(input, terms, terms.reach)) {
      if (flow->exact()) return flow;
      terms = std::move(*flow).release();
    }
    terms.widen();
  }
  if (input.connectivity)
    if (auto flow = make_wide_grid(input, terms, rounded_reach(input, terms))) return flow;
  return std::make_unique<OrderedFlow<Network<0, true, Cap>>>(input, std::move(terms));
}

}  // namespace cutlearn
