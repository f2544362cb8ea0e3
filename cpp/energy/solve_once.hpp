// One solve, in the cheapest way there is: an image-wide envelope by conditioning on its lines,
// nested cuts instead of a hub; anything else by the live engine.
//
// What     psi(s) is the lowest of a few lines, so min_y [E(y) + psi(s)] is the least of one cut
//          for each line, with unaries a_k m_i. Lines come with falling slope, so each cut has the
//          ones of the cut before it and perhaps more. A small change of slope goes on from the
//          last flow: it drains through the trees that are there and costs next to nothing. After a
//          great one a new engine is cheaper.
// Against  A hub that joins every node to one auxiliary node: all flow passes one place.
// Numbers  The lines are sums of the same quantised hinges that a hub would have, and among equal
//          minima the first line has the fewest ones: the same answer, to the last bit wherever
//          numbers are represented exactly.
#pragma once

#include <cstdint>

#include "energy/engine.hpp"

namespace cutlearn {

// Conditions on a region where that is cheaper than hubs for all.
// requires a survey without faults and a finite total
// threads: of a plain cut; lines are cut one after the other on one
Solved solve_once(const Input& input, const Survey& survey, int threads);

// The region to condition on, or -1: one that has most of the nodes, and few lines.
std::int64_t conditioned_region(const Input& input);

}  // namespace cutlearn
